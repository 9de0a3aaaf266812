"""The rules of backups."""
