"""Callers that present a user's token: it is checked before any of their message is read, and guesses are bounded."""

import asyncio
import math
from collections import Counter, OrderedDict
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator
from contextlib import aclosing, asynccontextmanager, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeAlias

import grpc

from services.common.address_rates import AddressRates
from services.common.errors import InvalidArgument, PermissionDenied, Reason, ResourceExhausted, Unauthenticated
from services.common.rpc.interceptors import Context, address_of, bearer_token, service_of
from services.common.rpc.log_fields import add_log_fields, log_request_fields
from services.common.rpc.streams import within
from services.database.transactions import Database
from services.locks.access.token_uses import TokenUses
from services.locks.access.tokens import authenticate, token_hash
from services.locks.models import User

_MESSAGE_SECONDS = 60.0
_MAX_KNOWN = 10_000
# Of one address: look-ups of tokens that were not valid before, and bad tokens, at once and then one by one.
_MAX_LOOK_UPS, _MAX_WAITING = 8, 100
_BAD_TOKENS, _BAD_TOKEN_SECONDS = 10, 6.0
# Of one user who is no administrator, because each call may bring a message.
_MAX_CALLS = 64

# gRPC's own type knows only blocking handlers.
_Handler: TypeAlias = Any
_caller: ContextVar[User] = ContextVar("token_caller")


def token_caller() -> User:
    """Return the user whose token the call that is being served has presented."""
    return _caller.get()


def check_administrator(user: User) -> None:
    """Raise `PermissionDenied` (NOT_ADMINISTRATOR) unless the user is an administrator."""
    if not user.administrator:
        raise PermissionDenied(Reason.NOT_ADMINISTRATOR, f"{user.name} is not an administrator")


@dataclass
class _Line:
    """The look-ups of one address: its turns, and how many calls have one or wait for one."""

    turns: asyncio.Semaphore = field(default_factory=partial(asyncio.Semaphore, _MAX_LOOK_UPS))
    waiting: int = 0


class TokenCallers(grpc.aio.ServerInterceptor):
    """Admits the callers of services, given by full name, by the token of a user, or of an administrator.

    Refuses with `Unauthenticated` (BAD_CREDENTIALS), `PermissionDenied` (NOT_ADMINISTRATOR, ACCESS_DENIED), and
    `ResourceExhausted` (RATE_LIMITED) an address that has shown many bad tokens, unless with a token that was valid
    before, and a user with very many calls at once.
    """

    def __init__(
        self, database: Database, uses: TokenUses, services: Iterable[str], *, administrators: Iterable[str]
    ) -> None:
        self._database = database
        self._uses = uses
        self._services = frozenset(services)
        self._administrators = frozenset(administrators)
        # Hashes of tokens that were valid at their last check, the latest last.
        self._known: OrderedDict[bytes, None] = OrderedDict()
        self._lines: dict[str, _Line] = {}
        self._bad = AddressRates(interval=_BAD_TOKEN_SECONDS, burst=_BAD_TOKENS)
        self._calls: Counter[int] = Counter()

    async def intercept_service(
        self,
        continuation: Callable[[grpc.HandlerCallDetails], Awaitable[_Handler]],
        handler_call_details: grpc.HandlerCallDetails,
    ) -> _Handler:
        """Return the handler of the call, which reads the message once the token is admitted."""
        handler = await continuation(handler_call_details)
        service = service_of(handler_call_details.method)
        if handler is None or service not in self._services | self._administrators:
            return handler
        token = bearer_token(handler_call_details.invocation_metadata)

        async def serve(requests: AsyncIterator[Any], context: Context) -> object:
            user = await self._admit(token, context.peer())
            if service in self._administrators:
                check_administrator(user)
            _caller.set(user)
            with self._counted(user):
                return await _serve(handler, requests, context)

        codecs = handler.request_deserializer, handler.response_serializer
        # Of the kinds whose handlers read by themselves.
        if handler.response_streaming:
            return grpc.stream_stream_rpc_method_handler(serve, *codecs)
        return grpc.stream_unary_rpc_method_handler(serve, *codecs)

    async def _admit(self, token: str, peer: str) -> User:
        # Only processes of the service's own account reach a unix socket.
        if peer.startswith("unix:") or token_hash(token) in self._known:
            return await self._user(token)
        address = address_of(peer)
        async with self._look_up(address):
            try:
                return await self._user(token)
            except Unauthenticated:
                self._bad.take(address)
                raise

    @asynccontextmanager
    async def _look_up(self, address: str) -> AsyncIterator[None]:
        """Wait for one of the address's look-ups. Raises `ResourceExhausted` if it has shown many bad tokens."""
        line = self._lines.setdefault(address, _Line())
        if line.waiting >= _MAX_WAITING:
            raise _limited("too many tokens from your address wait for their check")
        line.waiting += 1
        try:
            async with line.turns:
                if self._bad.wait(address):
                    raise _limited("too many tokens that are not valid came from your address")
                yield
        finally:
            line.waiting -= 1
            if not line.waiting:
                del self._lines[address]

    async def _user(self, token: str) -> User:
        hashed = token_hash(token)
        try:
            user = (await authenticate(self._database, self._uses, token)).user
        except Unauthenticated:
            self._known.pop(hashed, None)
            raise
        self._known[hashed] = None
        self._known.move_to_end(hashed)
        if len(self._known) > _MAX_KNOWN:
            self._known.popitem(last=False)
        add_log_fields(user=user.name)
        return user

    @contextmanager
    def _counted(self, user: User) -> Iterator[None]:
        if self._calls[user.id] >= _MAX_CALLS and not user.administrator:
            raise _limited(f"{user.name} has {_MAX_CALLS} calls already that have not ended")
        self._calls[user.id] += 1
        try:
            yield
        finally:
            self._calls[user.id] -= 1
            if not self._calls[user.id]:
                del self._calls[user.id]


async def _serve(handler: _Handler, requests: AsyncIterator[Any], context: Context) -> object:
    """Pass a call on to its own handler: with the one message of a unary call, or with the stream."""
    if handler.request_streaming:
        return await (handler.stream_stream or handler.stream_unary)(requests, context)
    request = await anext(within(requests, _MESSAGE_SECONDS), None)
    if request is None:
        raise InvalidArgument(Reason.MALFORMED_STREAM, "expected a message")
    log_request_fields(request)
    if handler.unary_unary is not None:
        return await handler.unary_unary(request, context)
    async with aclosing(handler.unary_stream(request, context)) as responses:
        async for response in responses:
            await context.write(response)
    return None


def _limited(message: str) -> ResourceExhausted:
    return ResourceExhausted(Reason.RATE_LIMITED, message, retry_after=str(math.ceil(_BAD_TOKEN_SECONDS)))
