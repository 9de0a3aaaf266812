"""Unit tests of `services.transfer`."""
