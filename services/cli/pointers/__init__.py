"""The pointers of a git repository: the small blobs that all of its refs reach, and the objects that these name."""
