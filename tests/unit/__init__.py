"""Rules, tested as functions."""
