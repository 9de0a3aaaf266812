"""The objects that are transferred, as files."""

import hashlib
import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

_MEBIBYTE = 1024 * 1024


@dataclass(frozen=True)
class Blob:
    """An object: its id, its size, and where its bytes lie."""

    oid: str
    size: int
    path: Path


def blobs(folder: Path, count: int, size: int) -> list[Blob]:
    """Return so many objects of random bytes; those that an earlier call made in the folder are taken again."""
    folder.mkdir(parents=True, exist_ok=True)
    made = [_known(path) for path in sorted(folder.iterdir()) if path.stat().st_size == size]
    return [*made, *(_make(folder, size) for _ in range(count - len(made)))][:count]


def _known(path: Path) -> Blob:
    return Blob(path.name, path.stat().st_size, path)


def _make(folder: Path, size: int) -> Blob:
    unfinished, digest = folder.with_name(f"{folder.name}.new"), hashlib.sha256()
    with unfinished.open("wb") as file:
        for start in range(0, size, _MEBIBYTE):
            piece = os.urandom(min(_MEBIBYTE, size - start))
            digest.update(piece)
            file.write(piece)
    return _known(unfinished.rename(folder / digest.hexdigest()))


def read_into_cache(paths: Iterable[Path]) -> None:
    """Read files, and all files in folders, so that whoever reads them next finds them in memory."""
    for path in paths:
        for file in [path] if path.is_file() else path.rglob("*"):
            if file.is_file():
                with file.open("rb", buffering=0) as stream:
                    while stream.read(_MEBIBYTE):
                        pass
