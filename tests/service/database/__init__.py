"""Connections, transactions and migrations, on a real Postgres."""
