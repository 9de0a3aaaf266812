"""Unit tests of services.storage.replication."""
