"""Postgres access for the services that store data in it: connections, transactions, migrations."""
