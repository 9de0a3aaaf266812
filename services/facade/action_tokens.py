"""The tokens of actions: good for one operation on one object of one repository, until a time."""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any

import jwt
from pydantic import SecretStr

from services.common.errors import PermissionDenied
from services.facade import credentials
from services.facade.reasons import HttpReason

_ALGORITHM = "HS256"
_MOST_TOKENS = 8


class Operation(StrEnum):
    """What an action does."""

    DOWNLOAD = "download"
    UPLOAD = "upload"
    VERIFY = "verify"


@dataclass(frozen=True)
class Permit:
    """What a token allows: this operation of this user on this object, of this size in bytes, of this repository."""

    operation: Operation
    repository: str
    repository_id: int
    oid: str
    size: int
    user: str


_CLAIMS = [*Permit.__dataclass_fields__, "exp"]


class ActionTokens:
    """Makes tokens with one key, and accepts those of that key and of another, if there is one.

    All facades have the same keys. While keys are changed, one facade may sign with what the other only accepts.
    """

    def __init__(self, key: SecretStr, accepted: SecretStr | None = None) -> None:
        self._key, *others = (each.get_secret_value().encode() for each in (key, accepted) if each is not None)
        self._accepted = (self._key, *others)

    def issue(self, permit: Permit, expires_at: int) -> str:
        """Return a token that is good until `expires_at` (Unix time)."""
        return jwt.encode({**asdict(permit), "exp": expires_at}, self._key, algorithm=_ALGORITHM)

    def check(self, headers: Sequence[str], *, operation: Operation, repository: str, oid: str) -> Permit:
        """Return what the Authorization headers of a request on an action's URL permit; one that is good is enough.

        Raises `PermissionDenied` (TOKEN_REFUSED) where none is good for this: never 401, which makes clients loop.
        """
        problem = "the token of the action is missing"
        for header in headers[:_MOST_TOKENS]:
            token = credentials.bearer(header)
            if token is None:
                continue
            try:
                claims = self._claims(token)
            except jwt.ExpiredSignatureError:
                problem = "the token of the action has expired; a new batch request gives a new one"
                continue
            except jwt.InvalidTokenError:
                problem = "the token of the action is not valid"
                continue
            permit = Permit(**{name: claims[name] for name in Permit.__dataclass_fields__})
            if (permit.operation, permit.repository, permit.oid) == (operation, repository, oid):
                return permit
            problem = "the token is that of another action"
        raise PermissionDenied(HttpReason.TOKEN_REFUSED, problem)

    def _claims(self, token: str) -> dict[str, Any]:
        """Return what a token says that one of the keys has signed; raises jwt.InvalidTokenError."""
        for key in self._accepted:
            with suppress(jwt.InvalidSignatureError):
                return jwt.decode(token, key, algorithms=[_ALGORITHM], options={"require": _CLAIMS})
        raise jwt.InvalidSignatureError
