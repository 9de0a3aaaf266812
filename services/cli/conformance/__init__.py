"""The command `towpath conformance`."""
