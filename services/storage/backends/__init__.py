"""Backends: storage of blobs by name, on a disk or in an object store; no SQL and no repository."""
