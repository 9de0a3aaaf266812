"""The rules of the facade, as functions."""
