"""Calls on objects, one module for each; bytes go through `uploads` and `backends`, SQL through `index`."""
