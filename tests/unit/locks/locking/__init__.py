"""Unit tests of services.locks.locking."""
