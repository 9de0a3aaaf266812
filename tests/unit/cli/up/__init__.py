"""Unit tests of services.cli.up."""
