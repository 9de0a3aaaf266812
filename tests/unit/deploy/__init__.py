"""Tests of what deploys Towpath."""
