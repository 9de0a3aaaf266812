"""Unit tests of services.storage.uploads."""
