"""Unit tests of services.facade.objects."""
