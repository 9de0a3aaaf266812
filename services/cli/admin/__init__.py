"""Administration over gRPC: one module for each noun."""
