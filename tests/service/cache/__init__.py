"""The cache as a process, in front of a real Towpath and of upstreams that fail."""
