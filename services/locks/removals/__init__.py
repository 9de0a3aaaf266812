"""Removals of users and repositories; both change locks as well as access."""
