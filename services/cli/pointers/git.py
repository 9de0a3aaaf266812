"""The small blobs among all that the refs, reflogs, stashes and indexes of a git repository reach: pointers, and more.

No replacement, graft or variable of the environment hides any of it, and nothing is fetched on the way. The repository
must be whole.
"""

import asyncio
import hashlib
import os
import re
import signal
import tempfile
import time
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import aclosing, suppress
from pathlib import Path
from typing import IO

from services.cli.errors import CommandError
from services.cli.git_process import ending, failure, start
from services.cli.processes import end
from services.common.lifecycle import cancel_and_wait

# The largest pointer; a larger blob is the content of a file.
_MAX_POINTER_BYTES = 1024
_CHUNK_BYTES = 64 * 1024
_MAX_LINE_BYTES = 1024 * 1024
# Git says nothing while it looks for what a large history reaches.
_SILENT_SECONDS = 1800.0
_STOP_SECONDS = 5.0
# A URL, or `host:path` as ssh has it.
_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://.+|[^/:\s-][^/:\s]*:.+")
_USER_INFO = re.compile(r"//[^/\s]*@")
_OWN_VARIABLES = (
    "GIT_ASKPASS",
    "GIT_CONFIG_GLOBAL",
    "GIT_CONFIG_NOSYSTEM",
    "GIT_CONFIG_SYSTEM",
    "GIT_PROXY_COMMAND",
    "GIT_SSH",
    "GIT_SSH_COMMAND",
    "GIT_SSH_VARIANT",
    "GIT_SSL_CAINFO",
    "GIT_SSL_CERT",
    "GIT_SSL_KEY",
    "GIT_SSL_NO_VERIFY",
    "GIT_TERMINAL_PROMPT",
)
_PARTIAL = r"^(remote\..*\.(promisor|partialclonefilter)|extensions\.partialclone)$"
_REACHED = ("rev-list", "--objects", "--no-object-names", "--all", "--reflog", "--indexed-objects", "--stdin")
_LOOK = ("cat-file", "--buffer", "--batch-check=%(objecttype) %(objectsize) %(objectname)")
_READ = ("cat-file", "--buffer", "--batch")


Found = Callable[[bytes], None]
"""The function that takes the content of each small blob."""


async def read_small_blobs(source: str, found: Found, *, may_change: bool = False) -> None:
    """Call `found` with each blob of at most 1,024 bytes that the repository in a folder or at a URL reaches.

    Raises `CommandError` for a repository that is shallow, partial or without refs, if git fails, and, unless they
    `may_change`, if the refs change meanwhile.
    """
    # A ref that is gone and back between the two looks at them is read all the same.
    with tempfile.TemporaryFile() as ids:
        if (folder := _folder(source)) is not None:
            git = _Git(folder)
            await git.require_whole(source)
            before = await git.refs(ids)
            await git.read_small_blobs(found, ids)
            if not may_change and await git.refs() != before:
                raise _changed(source)
            return
        if not _URL.fullmatch(source):
            raise CommandError(f"{source}: expected a folder that exists, or a URL")
        with tempfile.TemporaryDirectory(prefix="towpath-git-", ignore_cleanup_errors=True) as temporary:
            outside = _Git(Path(temporary))
            before = await outside.refs_at(source, ids)
            await outside.mirror(source, "mirror.git")
            git = _Git(Path(temporary) / "mirror.git")
            await git.require_whole(source)
            if may_change:
                # A ref that was removed since has left no objects in the mirror.
                ids.seek(0)
                ids.truncate()
            await git.read_small_blobs(found, ids)
            if not may_change and await outside.refs_at(source) != before:
                raise _changed(source)


def _folder(source: str) -> Path | None:
    return Path(source).resolve() if Path(source).is_dir() else None


def _changed(source: str) -> CommandError:
    shown = _USER_INFO.sub("//***@", source)
    return CommandError(f"{shown}: its refs changed while they were read, so that nothing is removed; try again")


class _Git:
    """Git in one folder, which is a repository itself."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._environment = _environment(folder)

    async def require_whole(self, source: str) -> None:
        """Raise `CommandError` unless the folder is a repository with refs, neither shallow nor partial."""
        if await self._first_line("rev-parse", "--is-shallow-repository") != b"false":
            raise CommandError(f"{source}: a shallow clone does not have the whole history; expected a full one")
        partial = await self._first_line("config", "--get-regexp", _PARTIAL, accepted=(0, 1))
        packs = Path(os.fsdecode(await self._first_line("rev-parse", "--git-path", "objects/pack")))
        if partial or any((self._folder / packs).glob("*.promisor")):
            raise CommandError(f"{source}: a partial clone does not have all files; expected a full one")
        if not await self._first_line("for-each-ref", "--count=1"):
            raise CommandError(f"{source}: the repository has no refs, so that it names nothing")

    async def refs(self, ids: IO[bytes] | None = None) -> bytes:
        """Return a digest of all refs, and of what is checked out in the worktrees; write the refs' ids to a file."""
        refs = await self._digest("for-each-ref", "--format=%(objectname) %(refname)", refused=b"broken ref", ids=ids)
        return refs + await self._digest("worktree", "list", "--porcelain")

    async def refs_at(self, url: str, ids: IO[bytes] | None = None) -> bytes:
        """Return a digest of the refs at a URL, and write their ids to a file."""
        return await self._digest("ls-remote", "--", url, ids=ids)

    async def mirror(self, url: str, name: str) -> None:
        """Clone all refs at a URL into a bare repository of this name in the folder."""
        arguments = ("clone", "--quiet", "--mirror", "--no-local", "--", url, name)
        with tempfile.TemporaryFile() as errors:
            process = await start(arguments, self._environment, errors=errors, folder=self._folder)
            try:
                status = await process.wait()
            finally:
                # So that git ends its own processes, too.
                await end(process, signal.SIGTERM, time.monotonic() + _STOP_SECONDS)
            if status:
                raise failure(arguments, status, errors)

    async def read_small_blobs(self, found: Found, ids: IO[bytes]) -> None:
        """Call `found` with each small blob that the repository and the ids in a file reach."""
        with tempfile.TemporaryFile() as errors:
            reader = await start(
                _READ, self._environment, errors=errors, stdin=asyncio.subprocess.PIPE, folder=self._folder
            )
            feeding = asyncio.create_task(self._feed(reader, ids, errors))
            try:
                async with ending(reader):
                    count = await _read_blobs(reader, found)
                    # First what was wrong with the ids, which has ended their stream early.
                    fed = await feeding
                    if await reader.wait() or count != fed:
                        raise failure(_READ, reader.returncode, errors)
            finally:
                await cancel_and_wait(feeding)

    async def _feed(self, reader: asyncio.subprocess.Process, ids: IO[bytes], errors: IO[bytes]) -> int:
        """Send the ids of all small blobs that are reached to `reader`, and return their number."""
        assert reader.stdin is not None  # noqa: S101 - for mypy: it is a pipe
        count = 0
        try:
            # git reports it by its exit status if the reader has ended.
            with suppress(BrokenPipeError, ConnectionResetError):
                async with aclosing(self._small_blobs(ids, errors)) as blobs:
                    async for small in blobs:
                        count += len(small)
                        reader.stdin.write(b"".join(b"%b\n" % id_ for id_ in small))
                        await reader.stdin.drain()
        finally:
            reader.stdin.close()
        return count

    async def _small_blobs(self, ids: IO[bytes], errors: IO[bytes]) -> AsyncGenerator[list[bytes], None]:
        ids.seek(0)
        read_end, write_end = os.pipe()
        try:
            lister = await start(
                _REACHED,
                self._environment,
                errors=errors,
                stdin=ids.fileno(),
                stdout=write_end,
                folder=self._folder,
            )
        except BaseException:
            os.close(read_end)
            raise
        finally:
            os.close(write_end)
        async with ending(lister):
            try:
                looker = await start(_LOOK, self._environment, errors=errors, stdin=read_end, folder=self._folder)
            finally:
                os.close(read_end)
            async with ending(looker):
                async for lines in _lines(looker):
                    yield [id_ for line in lines if (id_ := _small_blob(line)) is not None]
                if await looker.wait():
                    raise failure(_LOOK, looker.returncode, errors)
            if await lister.wait():
                raise failure(_REACHED, lister.returncode, errors)

    async def _first_line(self, *arguments: str, accepted: tuple[int, ...] = (0,)) -> bytes:
        first = b""
        async with aclosing(self._output(arguments, accepted=accepted)) as output:
            async for lines in output:
                first = first or next(iter(lines), b"")
        return first

    async def _digest(self, *arguments: str, refused: bytes | None = None, ids: IO[bytes] | None = None) -> bytes:
        """Return a digest of what git prints, and write the first word of each line to `ids`."""
        digest = hashlib.sha256()
        async with aclosing(self._output(arguments, refused=refused)) as output:
            async for lines in output:
                digest.update(b"".join(b"%b\n" % line for line in lines))
                if ids is not None:
                    ids.write(b"".join(b"%b\n" % line.split(None, 1)[0] for line in lines))
        return digest.digest()

    async def _output(
        self, arguments: tuple[str, ...], *, accepted: tuple[int, ...] = (0,), refused: bytes | None = None
    ) -> AsyncGenerator[list[bytes], None]:
        """Yield the lines that git prints. Raises `CommandError` for another status, and if it warns of `refused`."""
        with tempfile.TemporaryFile() as errors:
            process = await start(arguments, self._environment, errors=errors, folder=self._folder)
            async with ending(process):
                async for lines in _lines(process):
                    yield lines
                if await process.wait() not in accepted:
                    raise failure(arguments, process.returncode, errors)
            errors.seek(0)
            if refused is not None and refused in errors.read(_MAX_LINE_BYTES):
                raise failure(arguments, process.returncode, errors)


def _environment(folder: Path) -> Mapping[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("GIT_") or name in _OWN_VARIABLES}
    return {
        **kept,
        "LC_ALL": "C",
        # The folder itself is the repository, and not one around it.
        "GIT_CEILING_DIRECTORIES": str(folder.parent),
        "GIT_GRAFT_FILE": os.devnull,
        "GIT_NO_LAZY_FETCH": "1",
        "GIT_NO_REPLACE_OBJECTS": "1",
        "GIT_OPTIONAL_LOCKS": "0",
    }


def _small_blob(line: bytes) -> bytes | None:
    """Return the id of a blob that may be a pointer; None for another object. Raises `CommandError` for a lost one."""
    kind, _, rest = line.partition(b" ")
    if kind != b"blob":
        if kind not in (b"commit", b"tree", b"tag"):
            raise CommandError(f"git cat-file: an object is missing: {line[:200].decode(errors='replace')}")
        return None
    size, _, id_ = rest.partition(b" ")
    return id_ if int(size) <= _MAX_POINTER_BYTES else None


async def _read_blobs(reader: asyncio.subprocess.Process, found: Found) -> int:
    """Call `found` with each blob that `git cat-file --batch` prints, and return their number."""
    assert reader.stdout is not None  # noqa: S101 - for mypy: it is a pipe
    count = 0
    while True:
        async with asyncio.timeout(_SILENT_SECONDS):
            header = await reader.stdout.readline()
            if not header:
                return count
            *_, size = header.split()
            if not size.isdigit():
                raise CommandError(f"git cat-file: an object is missing: {header[:200].decode(errors='replace')}")
            content = await reader.stdout.readexactly(int(size) + 1)
        count += 1
        found(content[:-1])


async def _lines(process: asyncio.subprocess.Process) -> AsyncGenerator[list[bytes], None]:
    """Yield the lines of a process's output, as they come."""
    assert process.stdout is not None  # noqa: S101 - for mypy: it is a pipe
    rest = b""
    while True:
        async with asyncio.timeout(_SILENT_SECONDS):
            chunk = await process.stdout.read(_CHUNK_BYTES)
        if not chunk:
            break
        *lines, rest = (rest + chunk).split(b"\n")
        if len(rest) > _MAX_LINE_BYTES:
            raise CommandError(f"git: expected lines of at most {_MAX_LINE_BYTES} bytes")
        yield lines
    if rest:
        yield [rest]
