"""The actions that a batch hands out (protocol: "Action object"): where, with which token, and until when."""

import re
from collections.abc import Sequence

from services.common.errors import InvalidArgument
from services.facade.action_tokens import ActionTokens, Operation, Permit
from services.facade.answers import timestamp
from services.facade.models import Action
from services.facade.reasons import HttpReason

# A client that resumes a long upload verifies it long after the upload's own action was given.
_VERIFY_EXTRA_SECONDS = 24 * 3600

_HOST = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+)(:[0-9]{1,5})?", re.ASCII)


def origin(public_url: str | None, scheme: str, hosts: Sequence[str]) -> str:
    """Return what stands before the repository in hrefs: `public_url`, else the scheme and the Host of the request.

    Raises `InvalidArgument` (INVALID_HOST) where that is needed and is missing, malformed or there twice.
    """
    if public_url is not None:
        return public_url
    if len(hosts) != 1 or not _HOST.fullmatch(hosts[0]):
        raise InvalidArgument(HttpReason.INVALID_HOST, "host: expected one HOST or HOST:PORT")
    return f"{scheme}://{hosts[0]}"


class ActionMaker:
    """Makes the actions of one batch."""

    def __init__(self, tokens: ActionTokens, *, origin: str, seconds: int, now: int) -> None:
        self._tokens = tokens
        self._origin = origin
        self._seconds = seconds
        self._now = now

    def make(self, permit: Permit) -> Action:
        """Return the action; its expiry is the token's."""
        seconds = self._seconds + (_VERIFY_EXTRA_SECONDS if permit.operation is Operation.VERIFY else 0)
        token = self._tokens.issue(permit, self._now + seconds)
        return Action(
            href=f"{self._origin}/{permit.repository}/objects/{permit.oid}",
            header={"Authorization": f"Bearer {token}"},
            expires_in=seconds,
            expires_at=timestamp(self._now + seconds),
        )
