"""Places that hold bytes by name: a disk, an object store; no SQL and no repository."""
