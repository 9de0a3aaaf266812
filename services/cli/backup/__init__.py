"""`towpath backup`, `restore` and `check`: on a data folder of this host, or on what the environment names."""
