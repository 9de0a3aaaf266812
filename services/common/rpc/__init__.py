"""gRPC servers and channels, set up alike in all services."""
