"""The actions that a batch hands out (protocol: "Action object"): where, with which token, and until when.

They are JSON of the form that `models.Action` describes, written as such: a batch has hundreds.
"""

import re

from pydantic_core import to_json

from services.common.errors import InvalidArgument
from services.facade.auth.action_tokens import (
    TOKEN_HEADER,
    ActionGrant,
    ActionTokens,
    ObjectLocation,
    Operation,
    TokenIssuer,
)
from services.facade.clients.object_lookup import ObjectStat
from services.facade.web.error_reasons import HttpReason
from services.facade.web.forwarded_headers import ClientRequest
from services.facade.web.responses import timestamp

# A client that resumes a long upload verifies it long after the upload's own action was given.
_VERIFY_EXTRA_SECONDS = 24 * 3600
# One that ends earlier is of little use.
_MIN_SECONDS = 60

_HOST = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+)(:[0-9]{1,5})?", re.ASCII)


def origin(public_url: str | None, seen: ClientRequest) -> str:
    """Return what stands before the repository in hrefs: `public_url`, else where the client sent the request to.

    Raises `InvalidArgument` (INVALID_HOST) where its host is needed and is missing, malformed or there twice.
    """
    if public_url is not None:
        return public_url
    if len(seen.hosts) != 1 or not _HOST.fullmatch(seen.hosts[0]):
        raise InvalidArgument(HttpReason.INVALID_HOST, "host: expected one HOST or HOST:PORT")
    return f"{seen.scheme}://{seen.hosts[0]}{seen.prefix}"


class ActionFactory:
    """Makes the actions of one batch."""

    def __init__(self, tokens: ActionTokens, *, origin: str, seconds: int, now: int) -> None:
        self._tokens = tokens
        self._origin = origin
        self.seconds = seconds
        """How long an action can be used; more for verify."""
        self._now = now

    def for_operation(self, grant: ActionGrant) -> "ActionBuilder":
        """Return what makes those that are like `grant`, but for their objects."""
        seconds = self.seconds + (_VERIFY_EXTRA_SECONDS if grant.operation is Operation.VERIFY else 0)
        issuer = self._tokens.issuer(grant, self._now + seconds)
        return ActionBuilder(issuer, f"{self._origin}/{grant.repository}/objects/", seconds, self._now)


class ActionBuilder:
    """Makes the actions of one batch that do the same, each on its object. Their expiry is that of their tokens."""

    def __init__(self, issuer: TokenIssuer, base: str, seconds: int, now: int) -> None:
        """Make them at addresses that are `base` and the oid, for so many `seconds` from `now` (Unix time) on."""
        self._issuer = issuer
        self._seconds = seconds
        self._now = now
        self._begin = '{"href":' + to_json(base).decode().removesuffix('"')
        self._then = f'","header":{{"{TOKEN_HEADER}":"'
        self._end = f'"}},"expires_in":{seconds},"expires_at":"{timestamp(now + seconds)}"}}'

    def build(self, oid: str, size: int, place: ObjectLocation | None = None) -> str:
        """Return the action on an object of `size` bytes, which may have a place on a disk."""
        return f"{self._begin}{oid}{self._then}{self._issuer.issue(oid, size, place)}{self._end}"

    def build_transfer(self, oid: str, size: int, found: ObjectStat) -> str:
        """Return the action that moves the bytes: at the address of the store where there is one, else here."""
        signed = found.signed if found.HasField("signed") else None
        if signed is None or (ends := signed.expires_at.seconds) < self._now + _MIN_SECONDS:
            place = found.place if found.HasField("place") else None
            told = place and ObjectLocation(place.suffix, place.server_started, place.transaction_id)
            return self.build(oid, size, told)
        expires_at = min(ends, self._now + self._seconds)
        action = {
            "href": signed.url,
            "header": dict(signed.headers),
            "expires_in": expires_at - self._now,
            "expires_at": timestamp(expires_at),
        }
        return to_json(action).decode()
