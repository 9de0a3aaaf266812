"""The actions in the answer to a batch: URLs, headers and expiry (docs/protocol.md, "Action object").

Actions are built as JSON text in the form of `schemas.Action`, because a batch has hundreds of them.
"""

from dataclasses import dataclass

from pydantic_core import to_json

from services.facade.auth.action_tokens import (
    TOKEN_HEADER,
    ActionGrant,
    ActionTokens,
    ObjectLocation,
    Operation,
    TokenIssuer,
)
from services.facade.clients.object_lookup import ObjectStat
from services.facade.web.responses import timestamp

# A client that resumes a long upload verifies it long after the upload's own action was issued.
_VERIFY_EXTRA_SECONDS = 24 * 3600
# A signed URL that expires earlier is of little use.
_MIN_SECONDS = 60


@dataclass(frozen=True)
class ActionFactory:
    """Makes the actions of one batch, issued at `now` (Unix time)."""

    tokens: ActionTokens
    origin: str
    seconds: int
    """The lifetime of an action in seconds; actions to verify live longer."""
    now: int

    def for_operation(self, grant: ActionGrant) -> "ActionBuilder":
        """Return the builder of the actions that have the claims of `grant`, except for the object."""
        seconds = self.seconds + (_VERIFY_EXTRA_SECONDS if grant.operation is Operation.VERIFY else 0)
        issuer = self.tokens.issuer(grant, self.now + seconds)
        return ActionBuilder(issuer, f"{self.origin}/{grant.repository}/objects/", seconds, self.now)


class ActionBuilder:
    """Makes the actions of one batch and one operation. An action expires together with its token."""

    def __init__(self, issuer: TokenIssuer, base: str, seconds: int, now: int) -> None:
        """Make actions at `base` followed by the oid, valid for `seconds` from `now` (Unix time)."""
        self._issuer = issuer
        self._seconds = seconds
        self._now = now
        self._begin = '{"href":' + to_json(base).decode().removesuffix('"')
        self._then = f'","header":{{"{TOKEN_HEADER}":"'
        self._end = f'"}},"expires_in":{seconds},"expires_at":"{timestamp(now + seconds)}"}}'

    def build(self, oid: str, size: int, place: ObjectLocation | None = None) -> str:
        """Return the action on an object of `size` bytes; `place` is its location on a disk, if known."""
        return f"{self._begin}{oid}{self._then}{self._issuer.issue(oid, size, place)}{self._end}"

    def build_transfer(self, oid: str, size: int, found: ObjectStat) -> str:
        """Return the action that moves the bytes: at the store where it has signed a URL, else at the facade."""
        signed = found.signed if found.HasField("signed") else None
        if signed is None or (ends := signed.expires_at.seconds) < self._now + _MIN_SECONDS:
            place = found.place if found.HasField("place") else None
            location = place and ObjectLocation(place.suffix, place.server_started, place.transaction_id)
            return self.build(oid, size, location)
        expires_at = min(ends, self._now + self._seconds)
        action = {
            "href": signed.url,
            "header": dict(signed.headers),
            "expires_in": expires_at - self._now,
            "expires_at": timestamp(expires_at),
        }
        return to_json(action).decode()
