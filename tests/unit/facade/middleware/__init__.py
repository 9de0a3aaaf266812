"""Unit tests of services.facade.middleware."""
