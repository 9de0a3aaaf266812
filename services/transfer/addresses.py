"""The places that the options --from, --to and --git name."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from urllib.parse import unquote, urlsplit

from services.cli.errors import CommandError
from services.cli.git_credentials import GitCredentials
from services.storage.backends.object_store.location import SCHEMES
from services.transfer.bucket import BucketSink, BucketSource
from services.transfer.folder import FolderSink, FolderSource
from services.transfer.places import Sink, Source
from services.transfer.server.http import Http
from services.transfer.server.objects import ServerSink, ServerSource

_GIT_SUFFIX = ".git"
_GIT_LFS = "/info/lfs"

Server = tuple[Http, str]


def server_url(text: str) -> str | None:
    """Return the base URL of a repository at a server of the protocol; None for a place of another kind.

    The address of a git repository, which ends in .git, becomes that of its large files, as git-lfs has it. Raises
    `CommandError` for a URL with credentials, or that is none.
    """
    try:
        parts = urlsplit(text)
    except ValueError:
        raise CommandError("expected a URL, a folder or a bucket") from None
    if parts.scheme not in ("http", "https"):
        return None
    if "@" in parts.netloc:
        raise CommandError("expected a URL without a name and a password: git's helpers have them")
    if not parts.netloc or parts.query or parts.fragment:
        raise CommandError("expected a URL such as https://git.example.org/studio/film.git/info/lfs")
    path = parts.path.rstrip("/")
    return f"{parts.scheme}://{parts.netloc}{path}{_GIT_LFS if path.endswith(_GIT_SUFFIX) else ''}"


def is_bucket(text: str) -> bool:
    """Return whether a place is a bucket."""
    return text.partition("://")[0] in SCHEMES and "://" in text


def folder_of(text: str) -> Path:
    """Return the folder that a path or a file URL names. Raises `CommandError` for a URL of another kind."""
    scheme, separator, _ = text.partition("://")
    if not separator:
        return Path(text)
    if scheme != "file" or urlsplit(text).netloc not in ("", "localhost"):
        schemes = ", ".join(f"{name}://" for name in sorted(SCHEMES))
        raise CommandError(f"expected http(s)://, {schemes} or a folder, got {scheme}://")
    return Path(unquote(urlsplit(text).path))


@asynccontextmanager
async def opened_server(url: str, git: str | None, connections: int) -> AsyncIterator[Http]:
    """Open a client of a server; git's settings in the folder `git`, if it is one, tell where its credentials are."""
    http = Http(GitCredentials(_git_folder(git)), server=url, max_connections=connections)
    try:
        yield http
    finally:
        await http.close()


def _git_folder(git: str | None) -> Path | None:
    return Path(git) if git is not None and Path(git).is_dir() else None


async def open_source(text: str, http: Server | None) -> Source:
    """Open the place that objects come from. Raises `CommandError`."""
    if http is not None:
        return ServerSource(*http)
    if is_bucket(text):
        return await BucketSource.open(text)
    return FolderSource.open(folder_of(text))


async def open_sink(stack: AsyncExitStack, text: str, http: Server | None) -> Sink:
    """Open the place that objects go to; the stack closes it. Raises `CommandError`."""
    if http is not None:
        return ServerSink(*http)
    if is_bucket(text):
        return await BucketSink.open(text)
    folder = FolderSink.open(folder_of(text))
    stack.callback(folder.close)
    return folder
