"""Unit tests of services.facade.routes."""
