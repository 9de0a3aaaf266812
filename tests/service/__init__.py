"""Each service, tested over gRPC, on a real Postgres."""
