"""Requests that pass through to the upstream, in both directions as they come: locks, uploads, verifications."""

import hashlib
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import AsyncExitStack

import httpx
from starlette.requests import Request
from starlette.responses import Response

from services.cache.addresses import Address
from services.cache.context import CacheContext, to_client, to_upstream
from services.cache.tokens import Grant
from services.cache.upstream import encoded
from services.common.errors import InvalidArgument, Reason, ResourceExhausted
from services.facade.middleware.concurrency_limit import Slot, move_to_watches, slot_of
from services.facade.server.object_response import ObjectResponse
from services.facade.server.sendfile import FilePart
from services.facade.web import request_body
from services.facade.web.body_bounds import LOCK_BYTES, LOCK_PATHS_BYTES
from services.facade.web.forwarded_headers import client_network, client_of
from services.facade.web.request_log import add_log_fields

_EVENTS = "text/event-stream"
_VERIFY_BYTES = 4 * 1024
# Until a large upload is durable at the upstream.
_COMMIT_SECONDS = 120.0

_Body = bytes | AsyncIterator[bytes] | None


async def relay_locks(request: Request, address: Address, context: CacheContext) -> Response:
    """Return the upstream's answer to a request about locks.

    Raises the errors of `request_body.read` and `Upstream.request`.
    """
    add_log_fields(request.scope, repository=address.base.removeprefix("/"))
    is_of_paths = address.path.rpartition("/")[0].endswith("/locks/batch")
    body = await _small_body(request, context, LOCK_PATHS_BYTES if is_of_paths else LOCK_BYTES)
    url = context.upstream.url(address.path, request.scope["query_string"])
    return await _relayed(request, context, url, to_upstream(request.headers, client_of(request.scope)), body or None)


async def relay_upload(request: Request, grant: Grant, context: CacheContext) -> Response:
    """Return the upstream's answer to an upload, whose bytes are not kept.

    Raises `InvalidArgument` (SIZE_MISMATCH) where the body is not as long as the object, and the errors of
    `request_body.chunks` and `Upstream.request`.
    """
    settings = context.settings
    if int(request.headers.get("content-length", grant.size)) != grant.size:
        raise _wrong_size(grant)
    chunks = request_body.chunks(request.receive, settings.body_idle_seconds, settings.upload_min_bytes_per_second)
    headers = [*_of_action(request, grant), (b"content-length", b"%d" % grant.size)]
    body = _sized(chunks, grant)
    return await _relayed(request, context, httpx.URL(grant.url), headers, body, seconds=_COMMIT_SECONDS)


async def relay_verification(request: Request, grant: Grant, context: CacheContext) -> Response:
    """Return the upstream's answer to a verification. Raises as `relay_locks` does."""
    body = await _small_body(request, context, _VERIFY_BYTES)
    return await _relayed(request, context, httpx.URL(grant.url), _of_action(request, grant), body)


def _of_action(request: Request, grant: Grant) -> list[tuple[bytes, bytes]]:
    """Return the headers of a relayed action: those of the upstream's action, and others that its client has sent."""
    named = dict(encoded(grant.headers))
    sent = to_upstream(request.headers, client_of(request.scope))
    return [*named.items(), *((name, value) for name, value in sent if name not in {*named, b"authorization"})]


async def _small_body(request: Request, context: CacheContext, max_bytes: int) -> bytes:
    settings = context.settings
    async with slot_of(request.scope).released():
        return await request_body.read(
            request.headers,
            request.receive,
            max_bytes=min(max_bytes, settings.body_bytes),
            seconds=settings.json_body_seconds,
        )


async def _sized(chunks: AsyncIterator[bytes], grant: Grant) -> AsyncIterator[bytes]:
    left = grant.size
    async for chunk in chunks:
        left -= len(chunk)
        if left < 0:
            raise _wrong_size(grant)
        yield chunk
    if left:
        raise _wrong_size(grant)


def _wrong_size(grant: Grant) -> InvalidArgument:
    return InvalidArgument(Reason.SIZE_MISMATCH, f"body: expected {grant.size} bytes")


async def _relayed(
    request: Request,
    context: CacheContext,
    url: httpx.URL,
    headers: list[tuple[bytes, bytes]],
    body: _Body,
    seconds: float | None = None,
) -> Response:
    async with AsyncExitStack() as exchange:
        response = await exchange.enter_async_context(
            context.upstream.request(request.method, url, headers, body, seconds=seconds)
        )
        passed = to_client(context, request, response)
        kept = exchange.pop_all()
    rest = _body_of(response, kept)
    first = await anext(rest, b"")
    if first and response.headers.get("content-type", "").startswith(_EVENTS):
        # A watch goes on for as long as its client likes.
        try:
            kept.callback(_watch_slot(request, context).end)
        except ResourceExhausted:
            await rest.aclose()
            raise
    answered = ObjectResponse(
        first,
        rest,
        status_code=response.status_code,
        headers={},
        idle_seconds=context.settings.body_idle_seconds,
    )
    answered.raw_headers = passed
    return answered


def _watch_slot(request: Request, context: CacheContext) -> Slot:
    """Return the slot of a watch that the upstream has granted, so that the credentials, if any, are good ones.

    Raises the errors of `move_to_watches`.
    """
    network = client_network(client_of(request.scope).address, context.trusted)
    shown = request.headers.get("authorization", "")
    user = hashlib.sha256(shown.encode()).hexdigest() if shown else ""
    return move_to_watches(request.scope, context.watches, network=network, user=user)


async def _body_of(response: httpx.Response, exchange: AsyncExitStack) -> AsyncGenerator[bytes | FilePart, None]:
    async with exchange:
        async for chunk in response.aiter_raw():
            yield chunk
