"""Unit tests of services.storage.backends."""
