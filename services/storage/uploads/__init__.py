"""Bytes on their way to the stores, until they are committed; not the calls that bring them."""
