"""Backup, restore and check, by an operator, of the tables of all services together with the bytes of objects."""
