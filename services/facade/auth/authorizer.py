"""Identity and permissions of callers, decided by the AccessService (docs/protocol.md, "Authentication").

Granted answers are cached until a revocation is reported, see `revocation_watch`; refusals are not cached.
"""

import hashlib
from collections import OrderedDict
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from enum import Enum
from functools import partial
from typing import Any, TypeVar

from google.protobuf.message import Message
from towpath.access.v1 import access_service_pb2

from services.common.errors import NotFound, PermissionDenied, Reason, Unauthenticated
from services.common.token_prefix import TOKEN_PREFIX
from services.facade import metrics
from services.facade.auth.access_cache import AccessCache
from services.facade.auth.action_tokens import ActionGrant, Operation
from services.facade.auth.caller import Caller
from services.facade.auth.login_queue import LoginQueue, logins_limited
from services.facade.auth.login_throttle import LoginRateLimiter
from services.facade.auth.revocation_watch import RevocationState
from services.facade.clients.services import ServiceClients
from services.facade.web.authorization_header import presented_tokens
from services.facade.web.error_reasons import HttpReason, invalid_reply
from services.facade.web.sign_in_schemas import ExchangedToken

_Given = TypeVar("_Given", access_service_pb2.ExchangeTokenResponse, access_service_pb2.FinishSignInResponse)

_MAX_KNOWN = 10_000
_KEPT_SECONDS = 3600.0
# The client chooses the length of a ref; answers for longer refs are not cached.
_MAX_CACHED_REF = 256


class Permission(Enum):
    """The permission that a request needs."""

    READ = access_service_pb2.PERMISSION_READ
    WRITE = access_service_pb2.PERMISSION_WRITE
    WRITE_ANY_REF = access_service_pb2.PERMISSION_WRITE_ANY_REF
    ADMIN = access_service_pb2.PERMISSION_ADMIN


PERMISSIONS = {
    Operation.DOWNLOAD: Permission.READ,
    Operation.UPLOAD: Permission.WRITE,
    Operation.VERIFY: Permission.WRITE,
}
# The metadata of a credential that was valid once or that a forge or an issuer knows, which only its owner can present,
# and of a JSON Web Token whose refusal says nothing but what it says itself: the reason may be learned.
_TOLD = ("expired", "revoked", "lacks", "refused")
_ENDED = (
    Reason.BAD_CREDENTIALS,
    Reason.CREDENTIALS_REQUIRED,
    Reason.REPOSITORY_NOT_FOUND,
    Reason.ACCESS_DENIED,
)


class Authorizer:
    """Asks the AccessService, and slows addresses that repeatedly present bad credentials."""

    def __init__(
        self, clients: ServiceClients, login_limiter: LoginRateLimiter, changes: RevocationState, queue: LoginQueue
    ) -> None:
        self._clients = clients
        self._login_limiter = login_limiter
        self._queue = queue
        # Digests of the tokens that were valid at their last check, the latest last.
        self._good: OrderedDict[bytes, None] = OrderedDict()
        self._callers: AccessCache[bytes, Caller] = _remembered("caller", changes)
        self._permissions: AccessCache[tuple[int, str, Permission, str, int], int] = _remembered("permission", changes)

    async def authenticate(
        self,
        headers: Sequence[str],
        address: str,
        repository: str,
        aside: Callable[[], AbstractAsyncContextManager[None]],
    ) -> Caller:
        """Return the caller with these Authorization headers; one valid value among several is enough.

        The repository of the request decides which forge, if any, knows the credentials.
        While `address` is over its limit of bad credentials, tokens that were not valid at their last check wait for a
        turn in the login queue, within `aside`, so that the lock service is not overloaded. Raises `Unauthenticated`
        where no value is valid, and `ResourceExhausted` (LOGINS_LIMITED) where `address` is over its limit or gets no
        turn. A token that was valid at its last check is never refused because of other clients' bad credentials.
        """
        if not headers:
            return Caller()
        shown = tuple(presented_tokens(headers))
        digests = [_digest(token, repository) for token in shown]
        for digest in digests:
            if (caller := self._callers.get(digest)) is not None:
                return caller
        if not (shown and self._login_limiter.is_limited(address)):
            return await self._caller(shown, address, repository)
        for token, digest in zip(shown, digests, strict=True):
            if digest in self._good:
                # A token that has ended meanwhile waits for a turn like any other.
                with suppress(Unauthenticated):
                    return await self._owner(token, repository)
        async with aside(), self._queue.turn(address):
            return await self._caller(shown, address, repository)

    async def _caller(self, shown: Sequence[str], address: str, repository: str) -> Caller:
        reason, unseen = "", None
        for token in shown:
            try:
                return await self._owner(token, repository)
            except NotFound as error:
                # The forge knows the credential, but its owner may not see the repository; another value may.
                unseen = unseen or error
            except Unauthenticated as error:
                if error.reason != Reason.BAD_CREDENTIALS:
                    raise
                if not error.metadata.keys().isdisjoint(_TOLD):
                    reason = reason or error.message
        if unseen is not None:
            raise unseen
        raise self._bad_credentials(address, reason)

    def _count_failure(self, address: str) -> None:
        """Count bad credentials of an address. Raises `ResourceExhausted` where it is over its limit."""
        if seconds := self._login_limiter.add_failure(address):
            raise logins_limited("too many bad credentials came from your address", seconds)

    def _bad_credentials(self, address: str, reason: str) -> Unauthenticated:
        """Count bad credentials of an address, and return the error for them. Raises the error of `_count_failure`."""
        self._count_failure(address)
        return Unauthenticated(Reason.BAD_CREDENTIALS, reason or "the credentials are not valid")

    async def exchange(
        self, token: str, address: str, aside: Callable[[], AbstractAsyncContextManager[None]]
    ) -> tuple[str, ExchangedToken]:
        """Return the name of the user of a JSON Web Token, and a token of ours for it.

        Bad credentials count, and wait, as those of `authenticate`.
        """
        request = access_service_pb2.ExchangeTokenRequest(token=token)
        async with self._turn(address, aside):
            return await self._given(self._clients.access_stub.ExchangeToken, request, address)

    async def finish_sign_in(
        self,
        request: access_service_pb2.FinishSignInRequest,
        address: str,
        aside: Callable[[], AbstractAsyncContextManager[None]],
    ) -> tuple[str, ExchangedToken]:
        """Return the same for a code with which an issuer has sent a browser back."""
        async with self._turn(address, aside):
            return await self._given(self._clients.access_stub.FinishSignIn, request, address)

    async def _given(
        self, method: Callable[..., Awaitable[_Given]], request: Message, address: str
    ) -> tuple[str, ExchangedToken]:
        try:
            reply = await self._clients.locks.call(method, request)
        except Unauthenticated as error:
            if error.reason != Reason.BAD_CREDENTIALS:
                raise
            is_told = not error.metadata.keys().isdisjoint(_TOLD)
            raise self._bad_credentials(address, error.message if is_told else "") from error
        if not (reply.secret and reply.valid_seconds > 0 and reply.user_name):
            raise invalid_reply(type(request).__name__, "the reply lacks the token, its time or its user")
        return reply.user_name, ExchangedToken(
            access_token=reply.secret,
            issued_token_type="urn:ietf:params:oauth:token-type:access_token",  # noqa: S106 - the name of a type
            token_type="Bearer",  # noqa: S106 - the name of a type
            expires_in=reply.valid_seconds,
            user=reply.user_name,
        )

    async def revoke(self, token: str, address: str, aside: Callable[[], AbstractAsyncContextManager[None]]) -> str:
        """End a token that was given for a sign-in and return its user's name; an empty one if the token was not valid.

        Unknown tokens count, and wait, as bad credentials of `authenticate`. Raises `InvalidArgument` for other kinds.
        """
        request = access_service_pb2.RevokeSignInTokenRequest(token=token)
        async with self._turn(address, aside):
            try:
                reply = await self._clients.locks.call(self._clients.access_stub.RevokeSignInToken, request)
            except Unauthenticated as error:
                if error.reason != Reason.BAD_CREDENTIALS:
                    raise
                if error.metadata.keys().isdisjoint(_TOLD):
                    self._count_failure(address)
                return ""
        return reply.user_name

    @asynccontextmanager
    async def _turn(self, address: str, aside: Callable[[], AbstractAsyncContextManager[None]]) -> AsyncIterator[None]:
        """Wait for a turn in the login queue, within `aside`, if an address is over its limit."""
        if not self._login_limiter.is_limited(address):
            yield
            return
        async with aside(), self._queue.turn(address):
            yield

    async def _owner(self, token: str, repository: str) -> Caller:
        digest = _digest(token, repository)
        try:
            caller = await self._callers.get_or_fetch(digest, partial(self._ask_owner, token, repository))
        except Unauthenticated:
            self._good.pop(digest, None)
            raise
        self._good[digest] = None
        self._good.move_to_end(digest)
        if len(self._good) > _MAX_KNOWN:
            self._good.popitem(last=False)
        return caller

    async def _ask_owner(self, token: str, repository: str) -> tuple[Caller, float]:
        request = access_service_pb2.AuthenticateRequest(token=token, repository=repository)
        reply = await self._clients.locks.call(self._clients.access_stub.Authenticate, request)
        if not (reply.user_id and reply.user_name):
            raise invalid_reply("Authenticate", "the reply lacks the user")
        caller = Caller(
            reply.user_id,
            reply.user_name,
            reply.token_id,
            reply.scoped,
            token if reply.renewed_by_credential else "",
            reply.requests_per_hour,
            reply.token_requests_per_hour,
            reply.administrator,
            reply.refused_by_pages,
            token,
        )
        return caller, reply.keep_seconds

    async def check(self, caller: Caller, repository: str, permission: Permission, ref: str) -> int:
        """Return the repository's id, if the caller has the permission there, on this ref.

        Raises `Unauthenticated`, `NotFound` or `PermissionDenied`; see AccessService.CheckAccess.
        """
        question = caller.user_id, repository, permission, ref, caller.deciding_token_id
        return await self._permissions.get_or_fetch(
            question, partial(self._ask_permission, *question, credential=caller.credential)
        )

    async def check_grant(self, grant: ActionGrant) -> None:
        """Check that the access by which an action was issued is still valid: the token, the grant and the ref.

        Raises `PermissionDenied` (TOKEN_REFUSED) where the access has ended. An action token of an earlier version
        names no access, and passes.
        """
        if grant.user_id is None:
            return
        question = grant.user_id, grant.repository, PERMISSIONS[grant.operation], grant.ref, grant.token_id
        try:
            repository_id = await self._permissions.get_or_fetch(
                question, partial(self._ask_permission, *question, credential=grant.credential)
            )
        except (Unauthenticated, NotFound, PermissionDenied) as refusal:
            if refusal.reason not in _ENDED:
                raise
            raise _ended() from refusal
        if repository_id != grant.repository_id:
            raise _ended()

    async def _ask_permission(
        self, user_id: int, repository: str, permission: Permission, ref: str, token_id: int, *, credential: str
    ) -> tuple[int, float]:
        request = access_service_pb2.CheckAccessRequest(
            user_id=user_id,
            repository=repository,
            ref=ref,
            permission=permission.value,
            token_id=token_id,
            credential=credential,
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


def _digest(token: str, repository: str) -> bytes:
    """Return the digest of a credential, and of the repository where that decides whose credential it is."""
    scope = "" if token.startswith(TOKEN_PREFIX) else repository
    return hashlib.sha256(f"{scope}\0{token}".encode()).digest()
