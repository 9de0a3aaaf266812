"""The rules of locks and access."""
