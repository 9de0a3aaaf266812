"""Sessions of browsers: a cookie that carries the user's credential, encrypted (docs/pages.md).

No facade keeps a session, so that each of them serves each request, and a session ends with its credential.
"""

import secrets
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from pydantic import SecretStr, TypeAdapter

from services.facade.auth.sealing import Purpose, Sealing

SESSION_SECONDS = 12 * 3600
SIGN_IN_SECONDS = 600
MAX_CREDENTIAL = 1_024
"""The most characters of a credential: browsers keep no cookie of more than 4,096 bytes."""

_Kept = TypeVar("_Kept")

# A browser accepts a cookie of this prefix only from https, for the whole host, and for no other host.
_SESSION_COOKIE = "__Host-towpath-session"
_SIGN_IN_COOKIE = "__Host-towpath-sign-in"
_ENDED = "Max-Age=0"


@dataclass(frozen=True)
class Session:
    """A sign-in in a browser, until `expires_at` (Unix time)."""

    credential: str = field(repr=False)
    expires_at: int
    repository: str = ""
    """The repository whose git forge knows the credential; empty for a token of ours."""
    is_own: bool = False
    """True if the credential came with this sign-in, and ends with it."""
    csrf: str = field(default_factory=lambda: secrets.token_urlsafe(16), repr=False)
    """The text that each form of this session sends back."""


@dataclass(frozen=True)
class PendingSignIn:
    """A sign-in at an issuer, from the page that leads there to the one that comes back."""

    issuer: str
    state: str
    nonce: str
    verifier: str = field(repr=False)
    next_path: str
    expires_at: int


_SESSION: TypeAdapter[Session] = TypeAdapter(Session)
_PENDING: TypeAdapter[PendingSignIn] = TypeAdapter(PendingSignIn)


class SessionCookies:
    """Writes and reads the cookies of sessions, encrypted by `key`; cookies of the `accepted` key are read too."""

    def __init__(self, key: SecretStr, accepted: SecretStr | None = None) -> None:
        keys = [secret.get_secret_value().encode() for secret in (key, accepted) if secret is not None]
        self._sessions = [Sealing(key, Purpose.SESSION) for key in keys]
        self._sign_ins = [Sealing(key, Purpose.SIGN_IN) for key in keys]

    def session(self, headers: Sequence[str]) -> Session | None:
        """Return the session of a request's Cookie headers; None if there is none, or if it is over."""
        session = _read(_SESSION, self._sessions, _value(headers, _SESSION_COOKIE))
        return session if session is not None and session.expires_at > time.time() else None

    def keep(self, session: Session) -> str:
        """Return the Set-Cookie header that begins a session."""
        sealed = self._sessions[0].seal(_SESSION.dump_json(session).decode())
        return _cookie(_SESSION_COOKIE, sealed, f"Max-Age={session.expires_at - int(time.time())}", "Strict")

    def end(self) -> str:
        """Return the Set-Cookie header that ends a session."""
        return _cookie(_SESSION_COOKIE, "", _ENDED, "Strict")

    def pending(self, headers: Sequence[str]) -> PendingSignIn | None:
        """Return the sign-in that is under way; None if there is none, or if it took too long."""
        pending = _read(_PENDING, self._sign_ins, _value(headers, _SIGN_IN_COOKIE))
        return pending if pending is not None and pending.expires_at > time.time() else None

    def keep_pending(self, pending: PendingSignIn) -> str:
        """Return the Set-Cookie header that begins a sign-in at an issuer, from where the browser comes back."""
        sealed = self._sign_ins[0].seal(_PENDING.dump_json(pending).decode())
        return _cookie(_SIGN_IN_COOKIE, sealed, f"Max-Age={SIGN_IN_SECONDS}", "Lax")

    def end_pending(self) -> str:
        """Return the Set-Cookie header that ends a sign-in at an issuer."""
        return _cookie(_SIGN_IN_COOKIE, "", _ENDED, "Lax")


def _cookie(name: str, value: str, age: str, same_site: str) -> str:
    return f"{name}={value}; Path=/; Secure; HttpOnly; SameSite={same_site}; {age}"


def _value(headers: Sequence[str], name: str) -> str | None:
    """Return the value of a cookie; those of other programs at the same host are often none by any specification."""
    for header in headers:
        for pair in header.split(";"):
            key, separator, value = pair.strip().partition("=")
            if separator and key == name:
                return value
    return None


def _read(adapter: TypeAdapter[_Kept], sealings: Sequence[Sealing], sealed: str | None) -> _Kept | None:
    for sealing in sealings if sealed else ():
        try:
            return adapter.validate_json(sealing.open(sealed))
        except ValueError:
            continue
    return None
