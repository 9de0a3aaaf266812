"""Postgres, for the services that keep something in it: connections, transactions, migrations."""
