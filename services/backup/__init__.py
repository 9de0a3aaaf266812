"""Backup, restore and check: what an operator does with the tables of all services and the bytes of objects at once."""
