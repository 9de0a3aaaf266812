"""Kinds of damage to the bytes of an object of `DAMAGED_SIZE` bytes."""

import os
from collections.abc import Callable
from pathlib import Path

DAMAGED_SIZE = 300_000


def _flip(data: bytearray, position: int) -> None:
    data[position] ^= 1


CHANGES: dict[str, Callable[[bytearray], object]] = {
    "the first bit": lambda data: _flip(data, 0),
    "a bit in the middle": lambda data: _flip(data, DAMAGED_SIZE // 2),
    "the last bit": lambda data: _flip(data, -1),
    "zeros": lambda data: data.__setitem__(slice(4096, 8192), bytes(4096)),
    "two blocks swapped": lambda data: data.__setitem__(slice(0, 8192), data[4096:8192] + data[:4096]),
    "other bytes of the same size": lambda data: data.__setitem__(slice(0, DAMAGED_SIZE), os.urandom(DAMAGED_SIZE)),
    "short by a byte": lambda data: data.__delitem__(-1),
    "short by half": lambda data: data.__delitem__(slice(DAMAGED_SIZE // 2, DAMAGED_SIZE)),
    "empty": lambda data: data.clear(),
    "long by a byte": lambda data: data.append(0),
    "twice": lambda data: data.extend(bytes(data)),
}
"""The changes of bytes."""


def _rewrite(change: Callable[[bytearray], object]) -> Callable[[Path], None]:
    def damage(path: Path) -> None:
        data = bytearray(path.read_bytes())
        change(data)
        path.chmod(0o600)
        path.write_bytes(data)

    return damage


def _replace(put: Callable[[Path], object]) -> Callable[[Path], None]:
    def damage(path: Path) -> None:
        path.unlink()
        put(path)

    return damage


def _put_folder(path: Path) -> None:
    path.mkdir()
    (path / "x").write_bytes(b"x")


DAMAGE: dict[str, Callable[[Path], None]] = {
    **{name: _rewrite(change) for name, change in CHANGES.items()},
    "missing": Path.unlink,
    "a folder": _replace(Path.mkdir),
    "a folder with a file": _replace(_put_folder),
    "a FIFO": _replace(os.mkfifo),
    "a link to nothing": _replace(lambda path: path.symlink_to("nothing")),
    "a link to itself": _replace(lambda path: path.symlink_to(path.name)),
    "a link to other bytes": _replace(lambda path: path.symlink_to("/dev/zero")),
}
"""The kinds of damage on a disk."""
