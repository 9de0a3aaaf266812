"""Bytes of the storage service on its disk or in its bucket, seen from outside."""

from contextlib import suppress
from pathlib import Path

from services.storage.blob_names import oid_of
from tests.support.stack import Stack


def names(stack: Stack) -> dict[str, int]:
    """Return the names and sizes of all that counts as bytes of objects."""
    if stack.bucket is not None:
        return stack.bucket.names()
    sizes = {}
    for path in _files(stack, "objects"):
        # One that is just being removed does not count any more.
        with suppress(FileNotFoundError):
            sizes[path.name] = path.stat().st_size
    return sizes


def stored(stack: Stack) -> set[str]:
    """Return the oids of all objects whose bytes are there."""
    return {oid_of(name) for name in names(stack)}


def name_of(stack: Stack, oid: str) -> str | None:
    """Return the only name of an object's bytes; None where there is none."""
    found = [name for name in names(stack) if oid_of(name) == oid]
    assert len(found) <= 1, found
    return found[0] if found else None


def incoming(stack: Stack) -> list[str]:
    """Return the names of what is still being written, or was left behind."""
    if stack.bucket is not None:
        return stack.bucket.incoming()
    return [path.name for path in _files(stack, "incoming")]


def remove(stack: Stack, oid: str) -> str:
    """Lose the bytes of an object, and return their name."""
    name = name_of(stack, oid)
    assert name is not None
    if stack.bucket is not None:
        stack.bucket.delete(name)
    else:
        _file(stack, name).unlink()
    return name


def overwrite(stack: Stack, oid: str, data: bytes) -> None:
    """Put other bytes in the place of an object's."""
    name = name_of(stack, oid)
    assert name is not None
    if stack.bucket is not None:
        stack.bucket.put(name, data)
    else:
        _file(stack, name).chmod(0o600)
        _file(stack, name).write_bytes(data)


def _files(stack: Stack, folder: str) -> list[Path]:
    return [path for path in (stack.data / "storage" / folder).rglob("*") if path.is_file()]


def _file(stack: Stack, name: str) -> Path:
    return stack.data / "storage" / "objects" / name[:2] / name[2:4] / name
