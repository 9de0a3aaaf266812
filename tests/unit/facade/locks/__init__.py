"""Unit tests of services.facade.locks."""
