"""What the tests stand on: a real Postgres, real services, a real `towpath up`, the real git-lfs."""
