"""What the storage service has on its disk, seen from outside."""

from pathlib import Path

from services.storage.names import oid_of
from tests.support.stack import Stack
from tests.support.storage import stored_path


def stored(stack: Stack) -> set[str]:
    """Return the oids of all files that hold objects."""
    return {oid_of(path.name) for path in (stack.data / "storage" / "objects").rglob("*") if path.is_file()}


def incoming(stack: Stack) -> list[Path]:
    """Return the files that are still being written, or were left behind."""
    return [path for path in (stack.data / "storage" / "incoming").rglob("*") if path.is_file()]


def file_of(stack: Stack, oid: str) -> Path:
    """Return where the bytes of an object lie."""
    return stored_path(stack.data / "storage", oid)
