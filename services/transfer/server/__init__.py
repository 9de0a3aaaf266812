"""Another server of the protocol: its batch, its transfers, its locks, and the credentials for it."""
