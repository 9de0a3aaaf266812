"""Under which key of a bucket the bytes of a name lie: `PREFIX/objects/ab/cd/NAME`."""

from services.storage.blob_names import is_name, place_of

_FOLDER = "objects"


def folder_of(prefix: str) -> str:
    """Return what the keys of all bytes begin with, without the slash that follows."""
    return f"{prefix}/{_FOLDER}" if prefix else _FOLDER


def key_of(prefix: str, name: str) -> str:
    """Return the key of a name. Raises ValueError for anything but a name."""
    return "/".join((folder_of(prefix), *place_of(name)))


def name_of(prefix: str, key: str) -> str | None:
    """Return the name whose bytes lie under a key; None for a key of anything else."""
    name = key.rsplit("/", 1)[-1]
    return name if is_name(name) and key == key_of(prefix, name) else None
