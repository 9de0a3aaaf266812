"""Locks: their table, pages and history, and the rules of taking and releasing one; no gRPC."""
