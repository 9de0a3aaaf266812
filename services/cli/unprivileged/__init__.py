"""The unprivileged account of a command that is started as root, and the access of that account to what it needs."""
