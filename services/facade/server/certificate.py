"""The certificate with which the facade itself serves HTTPS, reloaded without a restart."""

import asyncio
import os
import pwd
import ssl
from functools import partial
from pathlib import Path
from typing import Self

from services.common.concurrency.periodic import run_periodically
from services.common.observability.logs import get_logger

CHECK_SECONDS = 60.0
"""The pause between two checks for renewed files."""

_log = get_logger(__name__)


class Certificate:
    """A certificate chain and its key, as PEM files; `context` serves the last usable pair.

    Raises ValueError where a file cannot be read or is no certificate or key, or where the pair does not match.
    """

    def __init__(self, chain: Path, key: Path) -> None:
        self._chain = chain
        self._key = key
        self._seen = self._state()
        self._newest = self._read()
        self.context = _context()
        # The callback replaces a handshake's context, so that the handshake ends with the newest certificate.
        self.context.sni_callback = self._use_newest

    @classmethod
    def of(cls, chain: Path | None, key: Path | None) -> Self | None:
        """Return the certificate of these settings, or None where there are none."""
        return cls(chain, key) if chain and key else None

    async def keep_renewed(self) -> None:
        """Call `renew` every `CHECK_SECONDS`, until cancelled."""
        await run_periodically(
            partial(asyncio.to_thread, self.renew), CHECK_SECONDS, trouble="the files of the certificate cannot be read"
        )

    def renew(self) -> bool:
        """Reload the files if they have changed; return whether new connections get a new certificate.

        An unusable pair is logged, and the pair before it stays in use. The files are tried again at each call, because
        a key may be written a moment after its certificate.
        """
        state = self._state()
        if state == self._seen:
            return False
        try:
            self._newest = self._read()
        except ValueError as error:
            _log.error("the renewed certificate cannot be used", error=str(error))
            return False
        self._seen = state
        _log.info("the certificate is renewed", path=str(self._chain))
        return True

    def _state(self) -> list[tuple[int, ...]]:
        """Return values that change when the files change; a missing file has none."""
        found: list[tuple[int, ...]] = []
        for path in (self._chain, self._key):
            try:
                stat = path.stat()
                found.append((stat.st_mtime_ns, stat.st_size, stat.st_ino))
            except OSError:
                found.append(())
        return found

    def _read(self) -> ssl.SSLContext:
        for name, path in (("https_certificate", self._chain), ("https_key", self._key)):
            try:
                path.read_bytes()
            except OSError as error:
                reader = f" by {_reader()}" if isinstance(error, PermissionError) else ""
                reason = (error.strerror or str(error)).lower()
                raise ValueError(f"{name}: cannot be read{reader}: {reason}: {path}") from error
        context = _context()
        try:
            context.load_cert_chain(self._chain, self._key, password=_no_password)
        except OSError as error:
            if getattr(error, "reason", None) == "KEY_VALUES_MISMATCH":
                raise ValueError("https_key: is not the key of https_certificate") from error
            raise ValueError("https_certificate, https_key: expected PEM files") from error
        return context

    def _use_newest(self, connection: ssl.SSLObject, _name: str | None, _context: ssl.SSLContext) -> None:
        connection.context = self._newest


def _context() -> ssl.SSLContext:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["http/1.1"])
    return context


def _no_password() -> str:
    raise ValueError("https_key: expected a key without a passphrase")


def _reader() -> str:
    """Return the name of the user that this process runs as, or the user's number if it has no name."""
    try:
        return pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        return f"user id {os.geteuid()}"
