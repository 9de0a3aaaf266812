"""Unit tests of services.facade.pages."""
