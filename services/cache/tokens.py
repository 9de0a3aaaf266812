"""Tokens of a cache's actions: each opens one operation on one object of one repository, and expires.

A token carries, encrypted, the action of the upstream that it stands for. No cache keeps anything for one.
"""

import json
import secrets
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

from pydantic_core import to_json

from services.common.errors import PermissionDenied
from services.common.files import write_secret
from services.facade.auth.action_tokens import Operation
from services.facade.auth.sealing import Purpose, Sealing
from services.facade.web.authorization_header import split_values
from services.facade.web.error_reasons import HttpReason

_MAX_TOKENS = 8
_KEY_FILE = "key"


@dataclass(frozen=True)
class Grant:
    """One operation on one object, until `expires_at` (Unix time).

    `url` and `headers` are the upstream's action, or empty where it was not asked. `caller` is the key of the caller to
    whom it was granted.
    """

    operation: Operation
    base: str
    oid: str
    size: int
    expires_at: int
    caller: bytes
    url: str = ""
    headers: dict[str, str] = field(default_factory=dict, repr=False)


class Tokens:
    """Seals and opens tokens with one key."""

    def __init__(self, key: str) -> None:
        self._sealing = Sealing(key.encode(), Purpose.CACHED_ACTION)

    def seal(self, grant: Grant) -> str:
        """Return the token of a grant."""
        claims = (
            grant.operation,
            grant.base,
            grant.oid,
            grant.size,
            grant.expires_at,
            grant.caller.hex(),
            grant.url,
            grant.headers,
        )
        return self._sealing.seal(to_json(claims).decode())

    def open(self, shown: Sequence[str], *, operation: Operation, base: str, oid: str) -> Grant:
        """Return the grant of the first token among header values that is valid for this operation and object.

        Raises `PermissionDenied` (TOKEN_REFUSED) where none is: never 401, because clients repeat a 401 forever.
        """
        problem = "the token of the action is missing"
        for token in islice(split_values(shown), _MAX_TOKENS):
            try:
                grant = self._read(token)
            except ValueError:
                problem = "the token of the action is not valid"
                continue
            if (grant.operation, grant.base, grant.oid) != (operation, base, oid):
                problem = "the token is that of another action"
            elif grant.expires_at <= time.time():
                problem = "the token of the action has expired; a new batch request gives a new one"
            else:
                return grant
        raise PermissionDenied(HttpReason.TOKEN_REFUSED, problem)

    def _read(self, token: str) -> Grant:
        """Return the grant of a token that this key has sealed. Raises ValueError."""
        operation, base, oid, size, expires_at, caller, url, headers = json.loads(self._sealing.open(token))
        return Grant(Operation(operation), base, oid, size, expires_at, bytes.fromhex(caller), url, headers)


def kept_key(folder: Path) -> str:
    """Return the key in a folder, made on first use: 64 random characters that only this user can read."""
    path = folder / _KEY_FILE
    try:
        return path.read_text().strip()
    except FileNotFoundError:
        key = secrets.token_urlsafe(48)
        write_secret(path, f"{key}\n")
        return key
