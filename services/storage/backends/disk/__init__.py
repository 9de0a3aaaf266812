"""The disk backend, which stores blobs as files below one folder."""

from services.storage.backends.disk.backend import DiskBackend

__all__ = ["DiskBackend"]
