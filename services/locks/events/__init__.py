"""Events of locks: the events after a position, and the feed of a process's watchers; no gRPC."""
