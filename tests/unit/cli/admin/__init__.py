"""Unit tests of services.cli.admin."""
