"""The facade over HTTP, in front of real services."""
