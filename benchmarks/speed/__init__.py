"""Speed of Towpath beside other servers of its kind: `python -m benchmarks.speed`, or `make bench`."""
