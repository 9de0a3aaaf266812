"""The tokens of actions: good for one operation on one object of one repository, until a time.

They are JSON Web Tokens of the one algorithm HS256. A batch has hundreds of them, so they are made and checked here, by
one HMAC each: see docs/decisions/0021.
"""

import hmac
import time
from binascii import a2b_base64, b2a_base64
from collections.abc import Sequence
from enum import StrEnum
from itertools import chain, islice
from typing import Any, NamedTuple

from pydantic import SecretStr
from pydantic_core import from_json, to_json

from services.common.errors import PermissionDenied
from services.facade.web.authorization_header import bearer, split_values
from services.facade.web.error_reasons import HttpReason

TOKEN_HEADER = "X-Towpath-Token"  # noqa: S105 - the name of a header, not a secret
"""The header of an action that has its token: its own, because clients and proxies take only one Authorization."""

_MAX_TOKENS = 8
_URL_SAFE = bytes.maketrans(b"+/", b"-_")
_STANDARD = bytes.maketrans(b"-_", b"+/")


def _encoded(data: bytes) -> str:
    return b2a_base64(data, newline=False).translate(_URL_SAFE, b"=").decode()


def _decoded(text: str) -> bytes:
    """Return what was encoded so. Raises ValueError."""
    return a2b_base64(text.encode().translate(_STANDARD) + b"=" * (-len(text) % 4))


# All tokens begin with it; one that says anything else, such as another algorithm, is none.
_HEADER = _encoded(b'{"alg":"HS256","typ":"JWT"}')


class Operation(StrEnum):
    """What an action does."""

    DOWNLOAD = "download"
    UPLOAD = "upload"
    VERIFY = "verify"


class ObjectLocation(NamedTuple):
    """The place of an object on a disk, as storage has told it; see StorageService.WatchRemovals."""

    suffix: str
    server_started: int
    transaction_id: int


class ActionGrant(NamedTuple):
    """What a token allows: this operation of this user on this object, of this size in bytes, of this repository.

    The next three are the access by which it was handed out: the user's id, 0 for an anonymous caller, the token that
    the user had shown, 0 where it is not known, and the ref of the batch. Tokens of earlier versions tell none of them,
    nor the place.
    """

    operation: Operation
    repository: str
    repository_id: int
    oid: str
    size: int
    user: str
    user_id: int | None = None
    token_id: int = 0
    ref: str = ""
    place: ObjectLocation | None = None


_CLAIMS = tuple(name for name in ActionGrant._fields if name not in ActionGrant._field_defaults)
_LATER_CLAIMS = ActionGrant._field_defaults


class _RefusedError(Exception):
    """A token is not good; the message says why."""


class TokenIssuer:
    """Issues tokens that differ in their objects: what they have in common is written, and signed, once."""

    def __init__(self, begun: hmac.HMAC, claims: bytes) -> None:
        """Go on from a key with which an HMAC has `begun`; `claims` is the JSON object of those in common."""
        shared = claims.removesuffix(b"}")
        # Base64 takes three bytes at a time, so what follows begins anew after spaces.
        self._beginning = f"{_HEADER}.{_encoded(shared + b' ' * (-len(shared) % 3))}"
        self._begun = begun.copy()
        self._begun.update(self._beginning.encode())

    def issue(self, oid: str, size: int, place: ObjectLocation | None = None) -> str:
        """Return the token for an object of `size` bytes, whose oid and suffix are hexadecimal digits."""
        placed = ""
        if place is not None:
            placed = f',"place":["{place.suffix}",{place.server_started},{place.transaction_id}]'
        rest = _encoded(f',"oid":"{oid}","size":{size}{placed}}}'.encode())
        return f"{self._beginning}{rest}.{_signature(self._begun, rest)}"


class ActionTokens:
    """Makes tokens with one key, and accepts those of that key and of another, if there is one.

    All facades have the same keys. While keys are changed, one facade may sign with what the other only accepts.
    """

    def __init__(self, key: SecretStr, accepted: SecretStr | None = None) -> None:
        keys = [each.get_secret_value().encode() for each in (key, accepted) if each is not None]
        # To begin with a key takes longer than to go on from there.
        self._begun = [hmac.new(each, digestmod="sha256") for each in keys]

    def issuer(self, grant: ActionGrant, expires_at: int) -> "TokenIssuer":
        """Return what issues the tokens of one batch, which end at `expires_at` (Unix time).

        They are like `grant`, but each for an object of its own.
        """
        claims = grant._asdict()
        del claims["oid"], claims["size"], claims["place"]
        return TokenIssuer(self._begun[0], to_json({**claims, "exp": expires_at}))

    def check(
        self, headers: Sequence[str], *, own: Sequence[str] = (), operation: Operation, repository: str, oid: str
    ) -> ActionGrant:
        """Return what a request on an action's URL is permitted, by one good token.

        It is in one of its `own` headers, or as Bearer in an Authorization one. Raises `PermissionDenied`
        (TOKEN_REFUSED) where none is good for this: never 401, which makes clients loop.
        """
        problem = "the token of the action is missing"
        shown = chain(
            split_values(own),
            filter(None, map(bearer, split_values(headers))),
        )
        for token in islice(shown, _MAX_TOKENS):
            try:
                grant = self._read(token)
            except _RefusedError as refused:
                problem = str(refused)
                continue
            if (grant.operation, grant.repository, grant.oid) == (operation, repository, oid):
                return grant
            problem = "the token is that of another action"
        raise PermissionDenied(HttpReason.TOKEN_REFUSED, problem)

    def _read(self, token: str) -> ActionGrant:
        """Return what a token permits that one of the keys has signed, until it ends. Raises `_RefusedError`."""
        signed, _, signature = token.rpartition(".")
        header, _, payload = signed.partition(".")
        genuine = any(hmac.compare_digest(_signature(begun, signed), signature) for begun in self._begun)
        if header != _HEADER or not genuine:
            raise _RefusedError("the token of the action is not valid")
        try:
            claims: dict[str, Any] = from_json(_decoded(payload))
            later = (claims.get(name, default) for name, default in _LATER_CLAIMS.items())
            grant, expires_at = ActionGrant(*(claims[name] for name in _CLAIMS), *later), int(claims["exp"])
            if grant.place is not None:
                grant = grant._replace(place=ObjectLocation(*grant.place))
        except (ValueError, TypeError, KeyError) as error:
            raise _RefusedError("the token of the action is not valid") from error
        if expires_at <= time.time():
            raise _RefusedError("the token of the action has expired; a new batch request gives a new one")
        return grant


def _signature(begun: hmac.HMAC, rest: str) -> str:
    """Return the signature of what `begun` has begun with, and the rest."""
    whole = begun.copy()
    whole.update(rest.encode())
    return _encoded(whole.digest())
