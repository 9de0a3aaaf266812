"""The cases, by part of the interface. The docstring of a case is the statement that it tries."""
