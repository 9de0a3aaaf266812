"""Unit tests of services.locks.access."""
