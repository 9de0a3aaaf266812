"""The services of Towpath; the folder is the import path (docs/architecture.md)."""
