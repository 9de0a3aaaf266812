"""Unit tests of services.storage.objects."""
