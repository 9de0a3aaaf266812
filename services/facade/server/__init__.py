"""The HTTP server: sockets, connections, TLS, files sent by the kernel; nothing of the protocol."""
