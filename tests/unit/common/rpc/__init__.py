"""Unit tests of services.common.rpc."""
