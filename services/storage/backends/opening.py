"""Opening of the backend that a URL such as `storage_url` denotes."""

import asyncio
from pathlib import Path
from urllib.parse import unquote, urlsplit

from services.storage.backends.base import Backend
from services.storage.backends.disk import DiskBackend

_OBJECT_STORES = ("s3", "gs", "az")


def folder_of(url: str) -> Path:
    """Return the folder that a `file:///ABSOLUTE/FOLDER` URL names. Raises ValueError for any other URL."""
    parts = urlsplit(url)
    if parts.scheme != "file" or parts.netloc not in ("", "localhost") or parts.query or parts.fragment:
        raise ValueError(f"storage_url: expected file:///ABSOLUTE/FOLDER, got {parts.scheme or 'no scheme'}:...")
    folder = Path(unquote(parts.path))
    if not folder.is_absolute() or "\0" in parts.path:
        raise ValueError("storage_url: expected an absolute folder after file://")
    return folder


async def open_backend(url: str, public_endpoint: str | None = None) -> Backend:
    """Return the backend of a URL.

    Raises ValueError for a URL that denotes no backend, and OSError if the folder cannot be created.
    `services.storage.backends.object_store.location` defines the URLs of object stores. `public_endpoint` is the
    address under which clients reach an object store, if it differs from the address that this service uses.
    """
    if url.partition(":")[0] in _OBJECT_STORES:
        # Imported only here because the libraries of object stores take a second to import, and many MiB.
        from services.storage.backends.object_store.opening import open_object_store

        return await open_object_store(url, public_endpoint)
    if public_endpoint is not None:
        raise ValueError("storage_public_endpoint: expected an object store in storage_url")
    return await asyncio.to_thread(DiskBackend, folder_of(url))
