"""Benchmarks behind the figures in the documentation; modules that name a `python -m` line are commands."""
