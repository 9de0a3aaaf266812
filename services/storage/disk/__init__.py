"""The backend that keeps bytes as files below one folder."""

from services.storage.disk.backend import DiskBackend

__all__ = ["DiskBackend"]
