"""Action tokens: each is valid for one operation on one object of one repository, until it expires.

Action tokens are JSON Web Tokens with the single algorithm HS256. This module makes and checks them itself, with one
HMAC each, because a batch has hundreds of them: see docs/decisions/0021.
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
from services.facade.auth.sealing import Purpose, Sealing
from services.facade.web.authorization_header import bearer, split_values
from services.facade.web.error_reasons import HttpReason

TOKEN_HEADER = "X-Towpath-Token"  # noqa: S105 - the name of a header, not a secret
"""The header that carries an action token; not Authorization, because clients and proxies take only one of those."""

_MAX_TOKENS = 8
_URL_SAFE = bytes.maketrans(b"+/", b"-_")
_STANDARD = bytes.maketrans(b"-_", b"+/")


def _encoded(data: bytes) -> str:
    return b2a_base64(data, newline=False).translate(_URL_SAFE, b"=").decode()


def _decoded(text: str) -> bytes:
    """Return the bytes that `_encoded` has encoded. Raises ValueError."""
    return a2b_base64(text.encode().translate(_STANDARD) + b"=" * (-len(text) % 4))


# Every token begins with this header; a token with a different header, such as another algorithm's, is refused.
_HEADER = _encoded(b'{"alg":"HS256","typ":"JWT"}')


class Operation(StrEnum):
    """The operation of an action."""

    DOWNLOAD = "download"
    UPLOAD = "upload"
    VERIFY = "verify"


class ObjectLocation(NamedTuple):
    """The location of an object on a disk, reported by storage; see StorageService.WatchRemovals."""

    suffix: str
    server_started: int
    transaction_id: int


class ActionGrant(NamedTuple):
    """The claims of an action token: one operation of one user on one object of one repository.

    `size` is in bytes. `user_id`, `token_id` and `ref` are the access by which the action was issued: the user's id, 0
    for an anonymous caller; the id of the token that the user presented, 0 where it is not known; and the ref of the
    batch. Action tokens of earlier versions lack these three claims and `place`. `credential` is that of the token if
    the access has to be renewed with it, else empty; in the action token it is encrypted.
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
    credential: str = ""


_CLAIMS = tuple(name for name in ActionGrant._fields if name not in ActionGrant._field_defaults)
_LATER_CLAIMS = ActionGrant._field_defaults


class _RefusedError(Exception):
    """An action token is not valid; the message says why."""


class TokenIssuer:
    """Issues tokens that differ only in their objects; their common part is encoded and hashed once."""

    def __init__(self, keyed: hmac.HMAC, claims: bytes) -> None:
        """Continue `keyed`, an HMAC that has hashed the key; `claims` is the JSON object of the common claims."""
        shared = claims.removesuffix(b"}")
        # Base64 encodes three bytes at a time: spaces fill the common part up, so that the rest is encoded by itself.
        self._beginning = f"{_HEADER}.{_encoded(shared + b' ' * (-len(shared) % 3))}"
        self._keyed = keyed.copy()
        self._keyed.update(self._beginning.encode())

    def issue(self, oid: str, size: int, place: ObjectLocation | None = None) -> str:
        """Return the token for an object of `size` bytes.

        The oid and the suffix must be hexadecimal digits, because they are put into the JSON without escaping.
        """
        location = ""
        if place is not None:
            location = f',"place":["{place.suffix}",{place.server_started},{place.transaction_id}]'
        rest = _encoded(f',"oid":"{oid}","size":{size}{location}}}'.encode())
        return f"{self._beginning}{rest}.{_signature(self._keyed, rest)}"


class ActionTokens:
    """Issues tokens signed with `key`, and accepts tokens of that key and of `accepted`, if it is given.

    All facades have the same keys. While keys are rotated, a facade may sign with the key that another only accepts.
    """

    def __init__(self, key: SecretStr, accepted: SecretStr | None = None) -> None:
        keys = [secret.get_secret_value().encode() for secret in (key, accepted) if secret is not None]
        # Copying an HMAC takes less time than creating it from the key.
        self._keyed = [hmac.new(secret, digestmod="sha256") for secret in keys]
        self._sealing = [Sealing(key, Purpose.ACTION) for key in keys]

    def issuer(self, grant: ActionGrant, expires_at: int) -> "TokenIssuer":
        """Return the issuer of the tokens of one batch; they expire at `expires_at` (Unix time).

        The tokens have the claims of `grant`, except for the object.
        """
        claims = grant._asdict()
        del claims["oid"], claims["size"], claims["place"], claims["credential"]
        if grant.credential:
            claims["credential"] = self._sealing[0].seal(grant.credential)
        return TokenIssuer(self._keyed[0], to_json({**claims, "exp": expires_at}))

    def check(
        self, headers: Sequence[str], *, own: Sequence[str] = (), operation: Operation, repository: str, oid: str
    ) -> ActionGrant:
        """Return the grant of the first token that is valid for this operation, repository and oid.

        The values of `own` are tokens themselves; the Authorization `headers` contain Bearer tokens. At most 8 tokens
        are checked. Raises `PermissionDenied` (TOKEN_REFUSED) where no token is valid: never 401, because clients
        repeat a 401 forever.
        """
        problem = "the token of the action is missing"
        shown = chain(split_values(own), filter(None, map(bearer, split_values(headers))))
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
        """Return the grant of a token, if its signature is genuine and it has not expired. Raises `_RefusedError`."""
        signed, _, signature = token.rpartition(".")
        header, _, payload = signed.partition(".")
        shown = signature.encode()
        signed_by = next(
            (
                at
                for at, keyed in enumerate(self._keyed if header == _HEADER else ())
                if hmac.compare_digest(_signature(keyed, signed).encode(), shown)
            ),
            None,
        )
        if signed_by is None:
            raise _RefusedError("the token of the action is not valid")
        try:
            claims: dict[str, Any] = from_json(_decoded(payload))
            later = (claims.get(name, default) for name, default in _LATER_CLAIMS.items())
            grant, expires_at = ActionGrant(*(claims[name] for name in _CLAIMS), *later), int(claims["exp"])
            if grant.place is not None:
                grant = grant._replace(place=ObjectLocation(*grant.place))
            if grant.credential:
                grant = grant._replace(credential=self._sealing[signed_by].open(grant.credential))
        except (ValueError, TypeError, KeyError) as error:
            raise _RefusedError("the token of the action is not valid") from error
        if expires_at <= time.time():
            raise _RefusedError("the token of the action has expired; a new batch request gives a new one")
        return grant


def _signature(keyed: hmac.HMAC, rest: str) -> str:
    """Return the signature of what `keyed` has hashed, followed by `rest`."""
    whole = keyed.copy()
    whole.update(rest.encode())
    return _encoded(whole.digest())
