"""Tests of the functions of the SSH service."""
