"""Replication of objects between stores, and the administration of stores; no call of a client."""
