"""Who the caller is, and what the caller may do: asked of the AccessService (protocol: "Authentication").

What it has granted is remembered for as long as no change is told, see `access_changes`; what it refuses is not.
"""

import hashlib
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, suppress
from dataclasses import dataclass
from enum import Enum
from functools import partial
from itertools import chain, islice
from typing import Any

from towpath.access.v1 import access_service_pb2

from services.common.errors import NotFound, PermissionDenied, Reason, Unauthenticated
from services.facade import metrics
from services.facade.auth.access_cache import AccessCache
from services.facade.auth.action_tokens import ActionGrant, Operation
from services.facade.auth.login_queue import LoginQueue, logins_limited
from services.facade.auth.login_throttle import LoginRateLimiter
from services.facade.auth.revocation_watch import RevocationState
from services.facade.clients.services import ServiceClients
from services.facade.web.authorization_header import split_values, tokens
from services.facade.web.error_reasons import HttpReason, invalid_reply

_MAX_CREDENTIALS = 4
_MAX_KNOWN = 10_000
_KEPT_SECONDS = 3600.0
# A ref is as long as a client likes.
_MAX_CACHED_REF = 256


@dataclass(frozen=True)
class Caller:
    """Whose request it is; an anonymous caller has the id 0 and no name."""

    user_id: int = 0
    name: str = ""
    token_id: int = 0
    """The token that was shown; 0 where there is none, or the lock service is of a version that does not tell."""


class Permission(Enum):
    """What a request needs."""

    READ = access_service_pb2.PERMISSION_READ
    WRITE = access_service_pb2.PERMISSION_WRITE
    WRITE_ANY_REF = access_service_pb2.PERMISSION_WRITE_ANY_REF


_PERMISSIONS = {
    Operation.DOWNLOAD: Permission.READ,
    Operation.UPLOAD: Permission.WRITE,
    Operation.VERIFY: Permission.WRITE,
}
# The metadata of a token that only who was given it can show: what is wrong with it is for them to know.
_TOLD = ("expired", "revoked")
_ENDED = (
    Reason.BAD_CREDENTIALS,
    Reason.CREDENTIALS_REQUIRED,
    Reason.REPOSITORY_NOT_FOUND,
    Reason.ACCESS_DENIED,
)


class Authorizer:
    """Asks the AccessService, and slows those who show bad credentials again and again."""

    def __init__(
        self, clients: ServiceClients, login_limiter: LoginRateLimiter, changes: RevocationState, queue: LoginQueue
    ) -> None:
        self._clients = clients
        self._failed_logins = login_limiter
        self._queue = queue
        # Digests of tokens that were good when they were last asked for, the latest last.
        self._good: OrderedDict[bytes, None] = OrderedDict()
        self._callers: AccessCache[bytes, Caller] = _remembered("caller", changes)
        self._permissions: AccessCache[tuple[int, str, Permission, str, int], int] = _remembered("permission", changes)

    async def authenticate(
        self, headers: Sequence[str], address: str, aside: Callable[[], AbstractAsyncContextManager[None]]
    ) -> Caller:
        """Return who shows these Authorization headers; of several values, in one or more of them, one good is enough.

        Where too many bad ones came from this address, those that were not good before wait for a turn, `aside`, so
        that the lock service has no more work than it can do. Raises `Unauthenticated` where none is good, and
        `ResourceExhausted` (LOGINS_LIMITED) where that happened too often, or no turn comes; a good one is not refused
        for what others have shown.
        """
        if not headers:
            return Caller()
        shown = tuple(_shown(headers))
        digests = [*map(_digest, shown)]
        for digest in digests:
            if (caller := self._callers.get(digest)) is not None:
                return caller
        if not (shown and self._failed_logins.is_limited(address)):
            return await self._caller(shown, address)
        for token, digest in zip(shown, digests, strict=True):
            if digest in self._good:
                # One that has ended meanwhile waits as the others do.
                with suppress(Unauthenticated):
                    return await self._owner(token)
        async with aside(), self._queue.turn(address):
            return await self._caller(shown, address)

    async def _caller(self, shown: Sequence[str], address: str) -> Caller:
        told = ""
        for token in shown:
            try:
                return await self._owner(token)
            except Unauthenticated as error:
                if error.reason != Reason.BAD_CREDENTIALS:
                    raise
                if not error.metadata.keys().isdisjoint(_TOLD):
                    told = told or error.message
        if seconds := self._failed_logins.add_failure(address):
            raise logins_limited("too many bad credentials came from your address", seconds)
        raise Unauthenticated(Reason.BAD_CREDENTIALS, told or "the credentials are not valid")

    async def _owner(self, token: str) -> Caller:
        digest = _digest(token)
        try:
            caller = await self._callers.get_or_fetch(digest, partial(self._ask_owner, token))
        except Unauthenticated:
            self._good.pop(digest, None)
            raise
        self._good[digest] = None
        self._good.move_to_end(digest)
        if len(self._good) > _MAX_KNOWN:
            self._good.popitem(last=False)
        return caller

    async def _ask_owner(self, token: str) -> tuple[Caller, float]:
        request = access_service_pb2.AuthenticateRequest(token=token)
        reply = await self._clients.locks.call(self._clients.access_stub.Authenticate, request)
        if not (reply.user_id and reply.user_name):
            raise invalid_reply("Authenticate", "the reply lacks the user")
        return Caller(reply.user_id, reply.user_name, reply.token_id), reply.keep_seconds

    async def check(self, caller: Caller, repository: str, permission: Permission, ref: str) -> int:
        """Return the repository's id where the caller may do this there.

        Raises `Unauthenticated`, `NotFound` or `PermissionDenied`, as AccessService.CheckAccess says.
        """
        question = caller.user_id, repository, permission, ref, 0
        return await self._permissions.get_or_fetch(question, partial(self._ask_permission, *question))

    async def check_grant(self, grant: ActionGrant) -> None:
        """Check that the access by which an action was handed out still stands: the token, the grant, and the ref.

        Raises `PermissionDenied` (TOKEN_REFUSED) where it has ended.
        """
        if grant.user_id is None:
            return
        permission = _PERMISSIONS[grant.operation]
        question = grant.user_id, grant.repository, permission, grant.ref, grant.token_id
        try:
            repository_id = await self._permissions.get_or_fetch(question, partial(self._ask_permission, *question))
        except (Unauthenticated, NotFound, PermissionDenied) as refusal:
            if refusal.reason not in _ENDED:
                raise
            raise _ended() from refusal
        if repository_id != grant.repository_id:
            raise _ended()

    async def _ask_permission(
        self, user_id: int, repository: str, permission: Permission, ref: str, token_id: int
    ) -> tuple[int, float]:
        request = access_service_pb2.CheckAccessRequest(
            user_id=user_id, repository=repository, ref=ref, permission=permission.value, token_id=token_id
        )
        reply = await self._clients.locks.call(self._clients.access_stub.CheckAccess, request)
        if not reply.repository_id:
            raise invalid_reply("CheckAccess", "the reply lacks the repository")
        if len(ref) > _MAX_CACHED_REF:
            return reply.repository_id, 0
        return reply.repository_id, reply.keep_seconds if token_id else _KEPT_SECONDS


def _remembered(question: str, changes: RevocationState) -> AccessCache[Any, Any]:
    counted = metrics.ACCESS_ANSWERS.labels
    return AccessCache(changes, recalled=counted(question, "memory"), asked=counted(question, "locks"))


def _ended() -> PermissionDenied:
    return PermissionDenied(
        HttpReason.TOKEN_REFUSED, "the access for which the action was handed out has ended; ask for a new batch"
    )


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode()).digest()


def _shown(headers: Sequence[str]) -> Iterator[str]:
    """Yield what may be a token, of the first few values of Authorization headers that show one."""
    values = filter(None, map(tokens, split_values(headers)))
    return chain.from_iterable(islice(values, _MAX_CREDENTIALS))
