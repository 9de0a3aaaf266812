"""Tests of what all services share."""
