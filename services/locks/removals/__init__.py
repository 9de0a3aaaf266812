"""Removals of users and repositories, which touch locks and access alike."""
