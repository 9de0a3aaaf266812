"""The cache: a process that answers for a distant upstream, and keeps the objects that pass through it."""
