"""The lock service over gRPC."""
