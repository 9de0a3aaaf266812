"""The unprivileged account of a command that is started as root, and that account's access to the files it needs."""
