"""Unit tests of services.facade.auth."""
