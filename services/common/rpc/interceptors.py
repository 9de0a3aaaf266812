"""Interceptors of every call that a service answers: authorization, request id, errors, metrics and the log line."""

import asyncio
import hmac
import logging
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias
from urllib.parse import unquote

import grpc
from pydantic import SecretStr

from services.common.client_addresses import limit_key
from services.common.errors import ServiceError, trailing_metadata
from services.common.observability import request_id, tracing
from services.common.observability.logs import get_logger
from services.common.rpc import log_fields, metrics

Context = grpc.aio.ServicerContext[Any, Any]
# gRPC's own type knows only blocking handlers.
_Handler: TypeAlias = Any
_Continuation = Callable[[grpc.HandlerCallDetails], Awaitable[_Handler]]

# Statuses that are no fault of the caller.
_FAILURES = ("UNKNOWN", "INTERNAL", "UNAVAILABLE", "DEADLINE_EXCEEDED", "DATA_LOSS", "UNIMPLEMENTED")

_MAX_OPEN_CALLS = 64
_MESSAGE_SECONDS = 10.0

# Bars gRPC's own retries: a service that reports an error has itself waited as long as its caller has time.
_WAITED_LONG_ENOUGH = ("grpc-retry-pushback-ms", "-1")

_log = get_logger(__name__)


def bearer_token(metadata: Iterable[tuple[str, str | bytes]] | None, key: str = "authorization") -> str:
    """Return the token of the metadata `authorization: Bearer TOKEN`, or of another key; empty if there is none."""
    for name, value in metadata or ():
        if name == key and isinstance(value, str) and value.startswith("Bearer "):
            return value.removeprefix("Bearer ")
    return ""


def service_of(method: str) -> str:
    """Return the full name of the service in the path of a call; empty where the path names no method."""
    return method[1:].rpartition("/")[0] if method.startswith("/") else ""


@dataclass(frozen=True)
class FurtherSecret:
    """A secret that some methods, given by full name, ask for beside the one between services.

    Callers present one of `secrets` as `Bearer SECRET` under the metadata `key`; if there is none, nobody may call
    them. A refusal calls it by its `name`.
    """

    name: str
    key: str
    methods: frozenset[str]
    secrets: Sequence[SecretStr | None]


class SecretInterceptor(grpc.aio.ServerInterceptor):
    """Refuses calls that do not present one of the secrets; without secrets it admits every call.

    Services in `unguarded` need no secret. Methods of `further` ask for another one too.
    """

    def __init__(
        self,
        secrets: Iterable[SecretStr | None],
        *,
        unguarded: Iterable[str],
        further: FurtherSecret | None = None,
    ) -> None:
        self._secrets = _bytes_of(secrets)
        self._unguarded = frozenset(unguarded)
        self._further = further
        self._further_secrets = _bytes_of(further.secrets) if further else []

    async def intercept_service(
        self, continuation: _Continuation, handler_call_details: grpc.HandlerCallDetails
    ) -> _Handler:
        """Pass the call on, or answer UNAUTHENTICATED."""
        problem = self._problem(handler_call_details.method, handler_call_details.invocation_metadata)
        if not problem:
            return await continuation(handler_call_details)

        async def refuse(_requests: object, context: Context) -> None:
            await context.abort(grpc.StatusCode.UNAUTHENTICATED, problem)

        # For methods of every kind, because it answers without reading a stranger's request.
        return grpc.stream_unary_rpc_method_handler(refuse)

    def _problem(self, method: str, metadata: Iterable[tuple[str, str | bytes]] | None) -> str:
        """Return what a call lacks; empty if it is admitted."""
        is_guarded = bool(self._secrets) and service_of(method) not in self._unguarded
        if is_guarded and not _is_among(bearer_token(metadata), self._secrets):
            return "the secret between services is missing or wrong"
        further = self._further
        if further is None or method not in further.methods or not (self._secrets or self._further_secrets):
            return ""
        is_shown = _is_among(bearer_token(metadata, further.key), self._further_secrets)
        return "" if is_shown else f"the secret of {further.name} is missing or wrong"


def _bytes_of(secrets: Iterable[SecretStr | None]) -> list[bytes]:
    # Without empty secrets, because an empty secret would admit callers that present nothing.
    return [shown for secret in secrets if secret and (shown := secret.get_secret_value().encode())]


def _is_among(shown: str, secrets: Iterable[bytes]) -> bool:
    return any(hmac.compare_digest(shown.encode(), secret) for secret in secrets)


class OpenCalls(grpc.aio.ServerInterceptor):
    """Bounds what strangers hold of services, given by full name, that answer one message without a secret.

    One address has `_MAX_OPEN_CALLS` at once, which must send their message within `_MESSAGE_SECONDS`.
    """

    def __init__(self, services: Iterable[str]) -> None:
        self._services = frozenset(services)
        self._calls: Counter[str] = Counter()

    async def intercept_service(
        self, continuation: _Continuation, handler_call_details: grpc.HandlerCallDetails
    ) -> _Handler:
        """Return the handler of the call, which reads the message by itself."""
        handler = await continuation(handler_call_details)
        if (
            handler is None
            or handler.request_streaming
            or service_of(handler_call_details.method) not in self._services
        ):
            return handler

        async def serve(requests: AsyncIterator[Any], context: Context) -> object:
            peer = context.peer()
            address = address_of(peer)
            # Only processes of the service's own account reach a unix socket.
            if self._calls[address] >= _MAX_OPEN_CALLS and not peer.startswith("unix:"):
                await context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, "too many calls of your address have not ended")
            self._calls[address] += 1
            try:
                async with asyncio.timeout(_MESSAGE_SECONDS):
                    request = await anext(requests)
            except (TimeoutError, StopAsyncIteration):
                await context.abort(grpc.StatusCode.DEADLINE_EXCEEDED, "expected a message")
            finally:
                self._calls[address] -= 1
                if not self._calls[address]:
                    del self._calls[address]
            return await (handler.unary_unary or handler.unary_stream)(request, context)

        codecs = handler.request_deserializer, handler.response_serializer
        # Of the kind whose handlers read by themselves.
        return grpc.stream_unary_rpc_method_handler(serve, *codecs)


def address_of(peer: str) -> str:
    """Return the key of the address in a peer of gRPC, such as `ipv4:192.0.2.1:50000` or `ipv6:%5B::1%5D:50000`."""
    return limit_key(unquote(peer).partition(":")[2].rpartition(":")[0].strip("[]"))


class CallInterceptor(grpc.aio.ServerInterceptor):
    """Adopts the caller's request id, turns errors into statuses, and logs and counts each call.

    `methods` are the full names of the served methods; all other methods, which strangers may call, are counted as
    "other". Calls of the methods in `waiting` are long polls: they are counted, but they are not in the metrics of
    calls in flight and of durations, have no span, and are logged at the level DEBUG, as are those calls of the methods
    in `frequent` that do not fail.
    """

    def __init__(self, methods: Iterable[str], *, waiting: Iterable[str] = (), frequent: Iterable[str] = ()) -> None:
        self._methods = frozenset(methods)
        self._waiting = frozenset(waiting)
        self._frequent = frozenset(frequent)

    async def intercept_service(
        self, continuation: _Continuation, handler_call_details: grpc.HandlerCallDetails
    ) -> _Handler:
        """Wrap the handler of the call."""
        handler = await continuation(handler_call_details)
        method = handler_call_details.method
        if handler is None or method.startswith("/grpc."):
            return handler
        counted_as = method if method in self._methods else "other"
        call = _Call(
            handler_call_details,
            counted_as=counted_as,
            waits=method in self._waiting,
            frequent=method in self._frequent,
        )
        codecs = handler.request_deserializer, handler.response_serializer
        if handler.unary_unary is not None:
            return grpc.unary_unary_rpc_method_handler(call.answered_once(handler.unary_unary), *codecs)
        if handler.stream_unary is not None:
            return grpc.stream_unary_rpc_method_handler(call.answered_once(handler.stream_unary), *codecs)
        if handler.unary_stream is not None:
            return grpc.unary_stream_rpc_method_handler(call.answered_by_stream(handler.unary_stream), *codecs)
        # Answered once, because a handler of this kind writes its responses itself.
        return grpc.stream_stream_rpc_method_handler(call.answered_once(handler.stream_stream), *codecs)


class _Call:
    """One call on its way through the interceptor."""

    def __init__(self, details: grpc.HandlerCallDetails, *, counted_as: str, waits: bool, frequent: bool) -> None:
        self._method = details.method
        self._counted_as = counted_as
        self._waits = waits
        self._frequent = frequent
        self._metadata = dict(details.invocation_metadata or ())
        self._fields: dict[str, log_fields.Value] = {}
        self._request_id = ""
        self._span: tracing.Span

    def answered_once(self, handle: Callable[..., Any]) -> Callable[..., Any]:
        async def handler(request: object, context: Context) -> object:
            started = self._begin(request)
            with tracing.serving(self._metadata, seen=not self._waits) as self._span:
                try:
                    response = await handle(request, context)
                except BaseException as error:
                    await self._fail(error, context, started)
                    raise
                self._end(started, "OK")
                return response

        return handler

    def answered_by_stream(self, handle: Callable[..., AsyncIterator[Any]]) -> Callable[..., AsyncIterator[Any]]:
        async def handler(request: object, context: Context) -> AsyncIterator[object]:
            started = self._begin(request)
            with tracing.serving(self._metadata, seen=not self._waits) as self._span:
                try:
                    async for response in handle(request, context):
                        yield response
                except BaseException as error:
                    await self._fail(error, context, started)
                    raise
                self._end(started, "OK")

        return handler

    def _begin(self, request: object) -> float:
        offered = self._metadata.get(request_id.METADATA_KEY)
        self._request_id = request_id.adopt(offered if isinstance(offered, str) else None)
        self._fields = log_fields.start_log_fields()
        log_fields.log_request_fields(request)
        if not self._waits:
            metrics.IN_FLIGHT.inc()
        return time.monotonic()

    async def _fail(self, error: BaseException, context: Context, started: float) -> None:
        """Abort the call with the status of the error; return only for aborts and cancellations of gRPC itself."""
        if isinstance(error, ServiceError):
            self._end(started, error.status.name, reason=error.reason, message=error.message)
            await context.abort(error.status, error.message, (*trailing_metadata(error), _WAITED_LONG_ENOUGH))
        if isinstance(error, Exception) and not isinstance(error, grpc.aio.AbortError):
            _log.exception("call failed", method=self._method)
            self._end(started, grpc.StatusCode.INTERNAL.name)
            await context.abort(grpc.StatusCode.INTERNAL, "internal error")
        self._end(started, context.code().name if isinstance(error, grpc.aio.AbortError) else "CANCELLED")

    def _end(self, started: float, status: str, **fields: str) -> None:
        seconds = round(time.monotonic() - started, 6)
        metrics.requests_of(self._counted_as, status).inc()
        # An abandoned stream is closed in another context, without the request id of the call.
        fields_logged = {"request_id": self._request_id, **self._fields, **fields}
        self._span.finish(self._counted_as, {"status": status, **fields_logged}, failed=status in _FAILURES)
        is_news = not self._waits and not (self._frequent and status == "OK")
        level = logging.INFO if is_news else logging.DEBUG
        _log.log(level, "call", method=self._method, status=status, seconds=seconds, **fields_logged)
        if not self._waits:
            metrics.request_seconds_of(self._counted_as).observe(seconds)
            metrics.IN_FLIGHT.dec()
