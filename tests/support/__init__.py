"""Foundations of the tests: a real Postgres, real services, a real `towpath up`, the real git-lfs."""
