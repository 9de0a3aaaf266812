"""The `towpath` command: everything on one host (`up`), and administration over gRPC."""
