"""Capacity: the free space and the bandwidth that are left for requests; no access to blobs."""
