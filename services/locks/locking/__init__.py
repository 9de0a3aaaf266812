"""Locks: their table, pages and history, and the rules for taking and releasing them; no gRPC."""
