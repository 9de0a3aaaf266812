"""Tests of the `towpath` command."""
