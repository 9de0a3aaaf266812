"""The commands `towpath backup`, `restore` and `check`, on a local data folder or on the environment's settings."""
