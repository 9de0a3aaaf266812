"""Tests of the parts of the self-test that need no server."""
