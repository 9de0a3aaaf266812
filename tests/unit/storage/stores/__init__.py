"""Unit tests of services.storage.stores."""
