"""Hooks of a git server: they refuse a push that changes what others have locked, and release locks by a push."""
