"""`towpath up`: Postgres, storage, locks and facade on one host, in the foreground."""
