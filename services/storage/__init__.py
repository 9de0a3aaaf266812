"""The storage service: objects of repositories, their index, and the backends that store blobs."""
