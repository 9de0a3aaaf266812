"""Tests of the places that objects come from and go to."""
