"""gRPC servers and channels, configured alike in all services."""
