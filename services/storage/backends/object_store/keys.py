"""Keys of blobs in a bucket: `PREFIX/objects/ab/cd/NAME`."""

from services.storage.blob_names import is_name, place_of

_FOLDER = "objects"


def folder_of(prefix: str) -> str:
    """Return the beginning that the keys of all blobs share, without the slash that follows."""
    return f"{prefix}/{_FOLDER}" if prefix else _FOLDER


def key_of(prefix: str, name: str) -> str:
    """Return the key of a blob name. Raises ValueError for anything but a blob name."""
    return "/".join((folder_of(prefix), *place_of(name)))


def name_of(prefix: str, key: str) -> str | None:
    """Return the blob name of a key; None for any other key."""
    name = key.rsplit("/", 1)[-1]
    return name if is_name(name) and key == key_of(prefix, name) else None
