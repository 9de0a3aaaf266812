"""Identity and permissions of callers, decided by the AccessService (docs/protocol.md, "Authentication").

Granted answers are cached until a revocation is reported, see `revocation_watch`; refusals are not cached.
"""

import hashlib
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from enum import Enum
from functools import partial
from typing import Any, TypeVar

from towpath.access.v1 import access_service_pb2

from services.common.client_addresses import limit_key
from services.common.errors import (
    NotFound,
    PermissionDenied,
    Reason,
    ResourceExhausted,
    ServiceError,
    Unauthenticated,
    Unavailable,
)
from services.common.token_prefix import TOKEN_PREFIX
from services.facade import metrics
from services.facade.auth.access_cache import AccessCache
from services.facade.auth.action_tokens import ActionGrant, Operation
from services.facade.auth.caller import Caller
from services.facade.auth.login_gate import Aside, LoginGate, is_told, is_undecided
from services.facade.auth.login_queue import LoginQueue
from services.facade.auth.login_throttle import LoginRateLimiter
from services.facade.auth.revocation_watch import RevocationState
from services.facade.clients.services import ServiceClients
from services.facade.web.authorization_header import presented_tokens
from services.facade.web.error_reasons import HttpReason, invalid_reply
from services.facade.web.sign_in_schemas import ExchangedToken

_Asked = TypeVar("_Asked", access_service_pb2.ExchangeTokenRequest, access_service_pb2.FinishSignInRequest)
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
        self._gate = LoginGate(login_limiter, queue)
        # Digests of the tokens that were valid at their last check, the latest last.
        self._good: OrderedDict[bytes, None] = OrderedDict()
        self._callers: AccessCache[bytes, Caller] = _remembered("caller", changes)
        self._permissions: AccessCache[tuple[int, str, Permission, str, int], int] = _remembered("permission", changes)

    async def authenticate(
        self,
        headers: Sequence[str],
        address: str,
        repository: str,
        aside: Aside,
    ) -> Caller:
        """Return the caller with these Authorization headers; one valid value among several is enough.

        The repository of the request decides which forge, if any, knows the credentials.
        While `address` is over its limit of bad credentials, tokens that were not valid at their last check wait for a
        turn in the login queue, within `aside`, so that the lock service is not overloaded, and no forge or issuer is
        asked about new ones. Raises `Unauthenticated` where no value is valid, `ResourceExhausted` (LOGINS_LIMITED)
        where `address` is over its limit or gets no turn, and the errors of Authenticate where nobody could be asked.
        A token that was valid at its last check is never refused because of other clients' bad credentials.
        """
        if not headers:
            return Caller()
        shown = tuple(dict.fromkeys(presented_tokens(headers)))
        digests = [_digest(token, repository) for token in shown]
        for digest in digests:
            if (caller := self._callers.get(digest)) is not None:
                return caller
        if self._gate.is_limited(address):
            for token, digest in zip(shown, digests, strict=True):
                if digest in self._good:
                    # A token that has ended meanwhile waits for a turn like any other.
                    with suppress(Unauthenticated):
                        return await self._owner(token, address, repository)
        return await self._caller(shown, address, repository, aside)

    async def _caller(self, shown: Sequence[str], address: str, repository: str, aside: Aside) -> Caller:
        """Return the caller with the first token that is valid; each look-up has a turn, and counts if in vain."""
        unseen: NotFound | None = None
        undecided: ServiceError | None = None
        bad: ServiceError | None = None
        for token in shown:
            try:
                async with self._gate.turn(address, aside):
                    return await self._owner(token, address, repository)
            except (Unavailable, ResourceExhausted) as error:
                if not is_undecided(error):
                    raise
                refusal = self._gate.undecided(address, error)
                undecided = undecided or refusal
            except NotFound as error:
                # The forge knows the credential, but its owner may not see the repository; another value may.
                unseen = unseen or error
            except Unauthenticated as error:
                if error.reason != Reason.BAD_CREDENTIALS:
                    raise
                refusal = self._gate.bad_credentials(address, error.message if is_told(error) else "")
                bad = refusal if bad is None or is_told(error) else bad
        raise undecided or unseen or bad or self._gate.bad_credentials(address, "")

    async def exchange(self, token: str, address: str, aside: Aside) -> tuple[str, ExchangedToken]:
        """Return the name of the user of a JSON Web Token, and a token of ours for it.

        Bad credentials count, and wait, as those of `authenticate`.
        """
        request = access_service_pb2.ExchangeTokenRequest(token=token)
        return await self._given(self._clients.access_stub.ExchangeToken, request, address, aside)

    async def finish_sign_in(
        self, request: access_service_pb2.FinishSignInRequest, address: str, aside: Aside
    ) -> tuple[str, ExchangedToken]:
        """Return the same for a code with which an issuer has sent a browser back."""
        return await self._given(self._clients.access_stub.FinishSignIn, request, address, aside)

    async def _given(
        self, method: Callable[..., Awaitable[_Given]], request: _Asked, address: str, aside: Aside
    ) -> tuple[str, ExchangedToken]:
        async with self._gate.turn(address, aside):
            request.client_address, request.client_is_limited = limit_key(address), self._gate.is_limited(address)
            try:
                reply = await self._clients.locks.call(method, request)
            except (Unavailable, ResourceExhausted) as error:
                if not is_undecided(error):
                    raise
                raise self._gate.undecided(address, error) from error
            except Unauthenticated as error:
                if error.reason != Reason.BAD_CREDENTIALS:
                    raise
                raise self._gate.bad_credentials(address, error.message if is_told(error) else "") from error
        if not (reply.secret and reply.valid_seconds > 0 and reply.user_name):
            raise invalid_reply(type(request).__name__, "the reply lacks the token, its time or its user")
        return reply.user_name, ExchangedToken(
            access_token=reply.secret,
            issued_token_type="urn:ietf:params:oauth:token-type:access_token",  # noqa: S106 - the name of a type
            token_type="Bearer",  # noqa: S106 - the name of a type
            expires_in=reply.valid_seconds,
            user=reply.user_name,
        )

    async def revoke(self, token: str, address: str, aside: Aside) -> str:
        """End a token that was given for a sign-in and return its user's name; an empty one if the token was not valid.

        Unknown tokens count, and wait, as bad credentials of `authenticate`. Raises `InvalidArgument` for other kinds.
        """
        request = access_service_pb2.RevokeSignInTokenRequest(token=token)
        async with self._gate.turn(address, aside):
            try:
                reply = await self._clients.locks.call(self._clients.access_stub.RevokeSignInToken, request)
            except Unauthenticated as error:
                if error.reason != Reason.BAD_CREDENTIALS:
                    raise
                if not is_told(error) and (limited := self._gate.count(address)):
                    raise limited from error
                return ""
        return reply.user_name

    async def _owner(self, token: str, address: str, repository: str) -> Caller:
        digest = _digest(token, repository)
        try:
            caller = await self._callers.get_or_fetch(digest, partial(self._ask_owner, token, address, repository))
        except Unauthenticated:
            self._good.pop(digest, None)
            raise
        self._good[digest] = None
        self._good.move_to_end(digest)
        if len(self._good) > _MAX_KNOWN:
            self._good.popitem(last=False)
        return caller

    async def _ask_owner(self, token: str, address: str, repository: str) -> tuple[Caller, float]:
        request = access_service_pb2.AuthenticateRequest(
            token=token,
            repository=repository,
            client_address=limit_key(address),
            client_is_limited=self._gate.is_limited(address),
        )
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
        # The ref never decides who may read, and anybody may name many.
        asked_ref = "" if permission is Permission.READ else ref
        question = caller.user_id, repository, permission, asked_ref, caller.deciding_token_id
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
