"""The git of a server, asked in the repository whose hook runs; output of any length is streamed."""

import asyncio
import os
import re
import tempfile
from collections.abc import AsyncGenerator, Iterable, Mapping
from typing import IO, NamedTuple

from services.cli.errors import CommandError
from services.cli.git_process import ending, failure, start

_COMMIT = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?", re.ASCII)
_CHUNK_BYTES = 64 * 1024
_MAX_PATH_BYTES = 64 * 1024
_MAX_INPUT_BYTES = 64 * 1024**2
# Each change has the name of its path alone; both paths of a rename; of a merge, what differs from all of its parents.
_NAMES = ("diff-tree", "-r", "-z", "--no-renames", "--name-only", "--ignore-submodules=none")


class RefUpdate(NamedTuple):
    """A line of a hook's standard input: the ref, and what it points to before and after; zeros for nothing."""

    old: str
    new: str
    ref: str

    @property
    def is_creation(self) -> bool:
        """True if the ref is new."""
        return not self.old.strip("0")

    @property
    def is_deletion(self) -> bool:
        """True if the ref goes."""
        return not self.new.strip("0")


def read_updates(stream: IO[bytes]) -> list[RefUpdate]:
    """Return the updates that git tells a hook. Raises `CommandError` for anything else."""
    text = stream.read(_MAX_INPUT_BYTES + 1)
    if len(text) > _MAX_INPUT_BYTES:
        raise CommandError(f"expected at most {_MAX_INPUT_BYTES} bytes of refs on the standard input")
    # The name of a ref may have what Unicode takes for the end of a line.
    return [_update_of(line) for line in text.decode(errors="surrogateescape").split("\n") if line]


def _update_of(line: str) -> RefUpdate:
    parts = line.split(" ", 2)
    if len(parts) != 3 or not (_COMMIT.fullmatch(parts[0]) and _COMMIT.fullmatch(parts[1])) or not parts[2]:
        raise CommandError("expected lines of an old id, a new id and a ref on the standard input, as git gives a hook")
    return RefUpdate(*parts)


class Git:
    """Git in the repository that the environment or the working directory names.

    The environment also has the folder in which git keeps the objects of a push until it is accepted.
    """

    def __init__(self, environment: Mapping[str, str]) -> None:
        # Otherwise a pushed refs/replace/... would hide what a commit changes.
        self._environment = {**environment, "GIT_NO_REPLACE_OBJECTS": "1", "LC_ALL": "C"}

    async def answer(self, *arguments: str) -> str:
        """Return the first line that git prints; empty if there is none, and for exit status 1."""
        with tempfile.TemporaryFile() as errors:
            process = await self._start(*arguments, errors=errors)
            async with ending(process):
                assert process.stdout is not None  # noqa: S101 - for mypy: it is a pipe
                output = await process.stdout.read(_CHUNK_BYTES)
                # What follows the first line of a few has no use.
                while output and await process.stdout.read(_CHUNK_BYTES):
                    pass
                if await process.wait() not in (0, 1):
                    raise failure(arguments, process.returncode, errors)
        return output.decode(errors="replace").partition("\n")[0]

    async def differing(self, old: str, new: str) -> AsyncGenerator[bytes, None]:
        """Yield the paths in which two commits differ."""
        arguments = (*_NAMES, old, new)
        with tempfile.TemporaryFile() as errors:
            process = await self._start(*arguments, errors=errors)
            async with ending(process):
                async for path in _paths(process):
                    yield path
                if await process.wait():
                    raise failure(arguments, process.returncode, errors)

    async def tips(self, folder: str) -> Mapping[str, str]:
        """Return what each ref below a folder, such as `refs/heads`, points to."""
        arguments = ("for-each-ref", "--format=%(objectname) %(refname)", folder)
        with tempfile.TemporaryFile() as errors, tempfile.TemporaryFile() as output:
            process = await self._start(*arguments, errors=errors, stdout=output.fileno())
            async with ending(process):
                if await process.wait():
                    raise failure(arguments, process.returncode, errors)
            output.seek(0)
            lines = output.read(_MAX_INPUT_BYTES).decode(errors="surrogateescape").split("\n")
        return {ref: tip for tip, _, ref in (line.partition(" ") for line in lines if line)}

    async def changed_by(self, *commits: str, excluded: Iterable[str] = ()) -> AsyncGenerator[bytes, None]:
        """Yield the paths that commits change, those of one commit after those of another.

        `commits` are arguments of rev-list; what the `excluded` commits lead to is left out. A merge changes what
        differs from all of its parents.
        """
        listing = ("rev-list", "--stdin", *commits)
        naming = (*_NAMES, "--stdin", "-c", "--root", "--no-commit-id")
        with tempfile.TemporaryFile() as errors, tempfile.TemporaryFile() as excluding:
            excluding.writelines(b"^%b\n" % each.encode() for each in excluded)
            excluding.seek(0)
            read_end, write_end = os.pipe()
            try:
                lister = await self._start(*listing, errors=errors, stdin=excluding.fileno(), stdout=write_end)
            except BaseException:
                os.close(read_end)
                raise
            finally:
                os.close(write_end)
            async with ending(lister):
                try:
                    namer = await self._start(*naming, errors=errors, stdin=read_end)
                finally:
                    os.close(read_end)
                async with ending(namer):
                    async for path in _paths(namer):
                        yield path
                    if await namer.wait():
                        raise failure(naming, namer.returncode, errors)
                if await lister.wait():
                    raise failure(listing, lister.returncode, errors)

    async def _start(
        self,
        *arguments: str,
        errors: IO[bytes],
        stdin: int = asyncio.subprocess.DEVNULL,
        stdout: int = asyncio.subprocess.PIPE,
    ) -> asyncio.subprocess.Process:
        return await start(arguments, self._environment, errors=errors, stdin=stdin, stdout=stdout)


async def _paths(process: asyncio.subprocess.Process) -> AsyncGenerator[bytes, None]:
    assert process.stdout is not None  # noqa: S101 - for mypy: it is a pipe
    rest = b""
    while chunk := await process.stdout.read(_CHUNK_BYTES):
        *paths, rest = (rest + chunk).split(b"\0")
        if len(rest) > _MAX_PATH_BYTES:
            raise CommandError(f"expected paths of at most {_MAX_PATH_BYTES} bytes")
        for path in paths:
            yield path
