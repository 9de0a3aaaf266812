"""The index: SQL of the storage schema, and the components that batch it; no backend and no gRPC."""
