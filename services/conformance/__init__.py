"""The self-test of a server for large objects and locks: the cases of the interface, and their runs."""
