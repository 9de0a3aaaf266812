"""Unit tests of services.locks.events."""
