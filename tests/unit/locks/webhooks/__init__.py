"""Unit tests of services.locks.webhooks."""
