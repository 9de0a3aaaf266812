"""Faults planted in services/, one at a time, and the tests that catch them: `python -m tests.faults`."""
