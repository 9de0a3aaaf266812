"""Unit tests of services.facade.web."""
