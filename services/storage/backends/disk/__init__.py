"""The backend that keeps bytes as files below one folder."""

from services.storage.backends.disk.backend import DiskBackend

__all__ = ["DiskBackend"]
