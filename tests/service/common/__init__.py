"""What all services share: gRPC servers and channels, errors, request ids."""
