"""What the storage service has on its disk, seen from outside."""

from pathlib import Path

from tests.support.stack import Stack


def stored(stack: Stack) -> set[str]:
    """Return the names of all files that count as objects."""
    return {path.name for path in (stack.data / "storage" / "objects").rglob("*") if path.is_file()}


def incoming(stack: Stack) -> list[Path]:
    """Return the files that are still being written, or were left behind."""
    return [path for path in (stack.data / "storage" / "incoming").rglob("*") if path.is_file()]


def file_of(stack: Stack, oid: str) -> Path:
    """Return where the bytes of an object lie."""
    return stack.data / "storage" / "objects" / oid[:2] / oid[2:4] / oid
