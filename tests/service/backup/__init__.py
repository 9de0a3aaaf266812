"""Backup, restore and check, as processes beside real services."""
