"""Tests of what the benchmarks simulate."""
