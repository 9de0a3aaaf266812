"""Unit tests of services.facade.clients."""
