"""Uploads until they are committed; not the calls that receive them."""
