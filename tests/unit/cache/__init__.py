"""Parts of the cache that need no process."""
