"""gRPC clients of the inner services; no HTTP."""
