"""A folder as the place that objects come from, or go to."""

import fcntl
import os
from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import aclosing, suppress
from itertools import islice
from pathlib import Path
from typing import Self

from services.cli.errors import CommandError
from services.cli.pointers.named import SIZE_BYTES, Pointer
from services.cli.pointers.oid_spool import OidSpool
from services.common.concurrency.files import new_file, pieces_of
from services.common.concurrency.uncancellable import run_in_thread
from services.transfer.errors import Kind, ObjectProblem
from services.transfer.layout import OWN, Layouts
from services.transfer.places import Lacking, exactly

# Where a git repository keeps the objects of git-lfs; what it has besides is none of them.
_WITHIN = (".git/lfs/objects", "lfs/objects")
_MAX_DEPTH = 12
SAMPLE = 10_000
"""The number of objects that tell the layout, where their list comes from elsewhere."""


class FolderSource:
    """A folder with objects in any layout whose paths end in the oids; see `layout.oid_of`."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.name = str(folder)
        self._layouts = Layouts()
        self._is_known = False

    @classmethod
    def open(cls, folder: Path) -> Self:
        """Open a folder, or that of the large files in a git repository. Raises `CommandError` if there is none."""
        if not folder.is_dir():
            raise CommandError(f"{folder}: expected a folder that exists, or a URL")
        return cls(next(filter(Path.is_dir, (folder / name for name in _WITHIN)), folder).resolve())

    async def add_all(self, spool: OidSpool) -> None:
        """Add what the folder has."""

        def add() -> None:
            for oid, size in self._walk():
                spool.add(bytes.fromhex(oid) + size.to_bytes(SIZE_BYTES))

        await run_in_thread(add)
        self._is_known = True

    async def announce(self, pointers: Sequence[Pointer]) -> None:
        """Learn the layout."""
        if pointers and not self._is_known:
            await run_in_thread(lambda: sum(1 for _ in islice(self._walk(), SAMPLE)))
            self._is_known = True

    async def read(self, pointer: Pointer) -> AsyncGenerator[bytes, None]:
        """Yield the bytes of the file."""
        for path in self._layouts.paths_of(pointer.oid):
            pieces = pieces_of(self._folder / path)
            async with aclosing(pieces):
                try:
                    first = await anext(pieces, b"")
                except FileNotFoundError:
                    continue
                except OSError as error:
                    raise _unreadable(error) from error
                async with aclosing(exactly(pointer, _from(first, pieces))) as chunks:
                    async for chunk in chunks:
                        yield chunk
                return
        raise ObjectProblem(Kind.MISSING, "the folder does not have it")

    def _walk(self) -> Iterator[tuple[str, int]]:
        """Yield the oid and the size of each object; links are not followed."""
        folders: list[tuple[str, ...]] = [()]
        while folders:
            parts = folders.pop()
            with os.scandir(self._folder.joinpath(*parts)) as entries:
                for entry in entries:
                    within = (*parts, entry.name)
                    if entry.is_dir(follow_symlinks=False):
                        if len(within) < _MAX_DEPTH:
                            folders.append(within)
                    elif entry.is_file(follow_symlinks=False) and (oid := self._layouts.learn(within)) is not None:
                        yield oid, entry.stat(follow_symlinks=False).st_size


class FolderSink:
    """A folder that objects go to as `ab/cd/OID`, each under another name until it is whole and durable.

    It is for one command at a time. Its owner closes it.
    """

    verifies = False
    max_group = 1

    def __init__(self, folder: Path, descriptor: int) -> None:
        self._folder = folder
        self._descriptor = descriptor
        self.name = str(folder)

    @classmethod
    def open(cls, folder: Path) -> Self:
        """Make the folder if it is missing. Raises `CommandError` where another command works on it."""
        folder = folder.resolve()
        folder.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(descriptor)
            raise CommandError(f"{folder}: another export works on it") from error
        return cls(folder, descriptor)

    def close(self) -> None:
        """Let others work on the folder."""
        os.close(self._descriptor)

    async def lacking(self, pointers: Sequence[Pointer]) -> Lacking:
        """Look for files of the names and the sizes: what has its name was whole when it got it."""
        return Lacking(await run_in_thread(lambda: [one for one in pointers if not self._has(one)]), {})

    def _has(self, pointer: Pointer) -> bool:
        try:
            return (self._folder / OWN.path_of(pointer.oid)).stat().st_size == pointer.size
        except FileNotFoundError:
            return False

    async def write(self, pointer: Pointer, chunks: AsyncGenerator[bytes, None]) -> None:
        """Write the bytes under another name, and give them theirs."""
        path = self._folder / OWN.path_of(pointer.oid)
        part = path.with_name(f".{pointer.oid}.part")
        async with aclosing(chunks):
            await run_in_thread(_prepare, part)
            try:
                async with new_file(part) as file:
                    async for chunk in chunks:
                        await run_in_thread(file.write, chunk)
                await run_in_thread(_put, part, path)
            finally:
                await run_in_thread(part.unlink, missing_ok=True)

    async def write_small(self, objects: Sequence[tuple[Pointer, bytes]]) -> Sequence[ObjectProblem | None]:
        """Not called: `max_group` is 1."""
        raise NotImplementedError


async def _from(first: bytes, rest: AsyncGenerator[bytes, None]) -> AsyncGenerator[bytes, None]:
    if first:
        yield first
    async with aclosing(rest):
        try:
            async for piece in rest:
                yield piece
        except OSError as error:
            raise _unreadable(error) from error


def _unreadable(error: OSError) -> ObjectProblem:
    return ObjectProblem(Kind.FAILED, f"the file cannot be read: {(error.strerror or str(error)).lower()}")


def _prepare(part: Path) -> None:
    part.parent.mkdir(parents=True, exist_ok=True)
    # Of an export that was killed.
    with suppress(FileNotFoundError):
        part.unlink()


def _put(part: Path, path: Path) -> None:
    part.rename(path)
    for folder in (path.parent, path.parent.parent):
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
