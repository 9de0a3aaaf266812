"""How fast Towpath is beside others of its kind: `python -m benchmarks.speed`, or `make bench`."""
