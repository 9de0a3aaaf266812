"""SQL of the storage schema, and what runs it in groups; no backend and no gRPC."""
