"""The HTTP server: sockets, connections, TLS, files sent by the kernel; knows nothing of the protocol."""
