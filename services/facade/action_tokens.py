"""The tokens of actions: good for one operation on one object of one repository, until a time."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum

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
    """Makes and checks tokens; all facades have the same key."""

    def __init__(self, key: SecretStr) -> None:
        self._key = key.get_secret_value().encode()

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
                claims = jwt.decode(token, self._key, algorithms=[_ALGORITHM], options={"require": _CLAIMS})
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
