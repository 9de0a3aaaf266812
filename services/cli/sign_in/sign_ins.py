"""The sign-ins of this user, in a file that nobody else can read, and the lock that one refresh at a time holds."""

import fcntl
import json
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from urllib.parse import urlsplit


@dataclass(frozen=True)
class SignIn:
    """A sign-in at a server; the token is valid until `expires_at`, in seconds since 1970."""

    server: str
    name: str
    issuer: str
    client_id: str
    user: str
    token: str
    expires_at: int
    refresh_token: str
    client_secret: str = ""


def folder() -> Path:
    """Return the folder of the file: `towpath` in XDG_CONFIG_HOME, or in ~/.config."""
    return Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config") / "towpath"


def normal_url(url: str) -> str:
    """Return the address of a server without a slash at its end, and with its host in lower case."""
    parts = urlsplit(url if "://" in url else f"https://{url}")
    return f"{parts.scheme.lower()}://{parts.netloc.lower()}{parts.path.rstrip('/')}"


def covers(server: str, url: str) -> bool:
    """Return whether a URL is of a server, or below its path."""
    return url == server or url.startswith(f"{server}/")


class SignIns:
    """The sign-ins by the address of their servers."""

    def __init__(self, path: Path | None = None) -> None:
        self._path = path or folder() / "sign-ins.json"

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the lock, so that one process at a time refreshes a token: an issuer may accept each only once."""
        self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor = os.open(self._path.with_suffix(".lock"), os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield
        finally:
            os.close(descriptor)

    def read(self) -> dict[str, SignIn]:
        """Return the sign-ins; a file that is missing or damaged has none."""
        with suppress(OSError, ValueError, TypeError, AttributeError):
            return {server: SignIn(**fields) for server, fields in json.loads(self._path.read_text()).items()}
        return {}

    def find(self, url: str) -> SignIn | None:
        """Return the sign-in at the server of a URL: the one with the longest path.

        Git tells no path by default: a URL without one is that of every server at its host.
        """
        asked = normal_url(url)
        has_path = bool(urlsplit(asked).path)
        found = [
            sign_in
            for server, sign_in in self.read().items()
            if covers(server, asked) or (not has_path and covers(asked, server))
        ]
        return max(found, key=lambda sign_in: len(sign_in.server), default=None)

    def put(self, sign_in: SignIn) -> None:
        """Write a sign-in in place of the earlier one at its server; the caller holds the lock."""
        self._write({**self.read(), sign_in.server: sign_in})

    def remove(self, server: str) -> SignIn | None:
        """Remove the sign-in at a server and return it; the caller holds the lock."""
        known = self.read()
        removed = known.pop(server, None)
        if removed is not None:
            self._write(known)
        return removed

    def _write(self, known: dict[str, SignIn]) -> None:
        # A new file has the mode 0600, and takes the place of the other at once.
        descriptor, name = tempfile.mkstemp(dir=self._path.parent, prefix=".sign-ins-")
        try:
            with os.fdopen(descriptor, "w") as file:
                json.dump({server: asdict(sign_in) for server, sign_in in known.items()}, file, indent=1)
            Path(name).replace(self._path)
        except BaseException:
            Path(name).unlink(missing_ok=True)
            raise
