"""One module for each call on objects; bytes go through `uploads` and `backends`, SQL through `index`."""
