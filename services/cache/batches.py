"""Batches: the upstream says what the caller may read, which is remembered briefly (docs/second-office.md)."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ParamSpec, TypeVar

import httpx
from prometheus_client import Counter
from pydantic_core import from_json, to_json
from starlette.requests import Request
from starlette.responses import Response

from services.cache import metrics
from services.cache.actions import ActionMaker
from services.cache.addresses import Address
from services.cache.context import CacheContext, to_client, to_upstream
from services.cache.rights import Caller
from services.cache.upstream import UpstreamAway, readable
from services.common.concurrency.uncancellable import run_in_thread
from services.common.errors import Reason, Unauthenticated
from services.common.oid import is_oid
from services.facade.middleware.concurrency_limit import slot_of
from services.facade.web import request_body
from services.facade.web.body_bounds import batch_bytes, check_lengths
from services.facade.web.error_reasons import invalid_reply
from services.facade.web.forwarded_headers import client_of, origin
from services.facade.web.media_types import negotiate
from services.facade.web.request_log import add_log_fields
from services.facade.web.responses import json_response

_MAX_ANSWER_BYTES = 32 * 1024**2
# Decoding and sealing more than this takes milliseconds, for which others would wait.
_MAX_INLINE_BYTES = 16 * 1024
# About what an entry of an answer takes.
_ENTRY_BYTES = 512
_BASIC = "basic"
_SHA_256 = "sha256"
_FORGETTING = (401, 403, 404)
_FIELDS = {"operation", "transfers", "ref", "objects", "hash_algo"}
_AWAY = {"code": 503, "message": "the server behind this cache does not answer, and the cache does not have the object"}


Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")


@dataclass(frozen=True)
class Asked:
    """The part of a batch request that the cache understands; `objects` are oids and sizes.

    A batch that `is_plain` asks for objects and has nothing else, so that it means nothing else to the upstream.
    """

    is_download: bool
    ref: str
    objects: Sequence[tuple[str, int]]
    is_plain: bool


async def answer(request: Request, address: Address, context: CacheContext) -> Response:
    """Answer a batch: from memory where the rights to all its objects are remembered and they are kept, else by asking.

    Raises the errors of `request_body.read`, `check_lengths`, `origin` and `Upstream.request`, and `Unauthenticated`
    (CREDENTIALS_REQUIRED) where the upstream is away and the caller could be one whose right is remembered.
    """
    settings = context.settings
    headers = to_upstream(request.headers, client_of(request.scope))
    async with slot_of(request.scope).released():
        body = await request_body.read(
            request.headers,
            request.receive,
            max_bytes=min(batch_bytes(settings.batch_objects), settings.body_bytes),
            seconds=settings.json_body_seconds,
        )
    asked, body = await _off_loop(len(body), _understood, body, settings.batch_objects)
    # As they are sent, so that a right is remembered of those whom the upstream has seen.
    authorization = [value.decode("latin-1") for name, value in headers if name == b"authorization"]
    query = request.scope["query_string"]
    caller = context.rights.caller(authorization, address.base, asked.ref if asked else "", query)
    maker = ActionMaker(
        context.tokens,
        context.upstream,
        address,
        origin(settings.public_url, client_of(request.scope)),
        caller.key,
        authorization,
    )
    add_log_fields(request.scope, repository=address.base.removeprefix("/"))
    if asked is not None:
        direction = "download" if asked.is_download else "upload"
        add_log_fields(request.scope, direction=direction, objects=len(asked.objects))
    known = _Known(request, context, maker, caller, asked.objects if asked is not None and asked.is_download else ())
    if (response := await known.answer_remembered()) is not None:
        return response
    if context.upstream.is_away and (response := await known.answer_while_away()) is not None:
        return response
    try:
        answered, replaced = await _from_upstream(request, address, context, maker, headers, body)
    except UpstreamAway:
        if (response := await known.answer_while_away()) is not None:
            return response
        if known.may_need_credentials(authorization):
            # A client shows its credentials only where it is asked for them.
            raise Unauthenticated(Reason.CREDENTIALS_REQUIRED, "credentials are needed") from None
        raise
    if _ends_rights(answered.status_code, asked, is_stranger=not authorization):
        context.rights.forget(caller.key)
    if replaced is not None and asked is not None and asked.is_download:
        # Whoever invents queries would be as many callers; git-lfs sends none.
        if not query:
            context.rights.note(caller, replaced.allowed)
        refused = set(replaced.refused).difference(replaced.allowed)
        if not authorization:
            # What a stranger asks for by another size than its own is refused to that one alone.
            refused &= {oid for oid, size in asked.objects if context.objects.has(oid, size)}
        for oid in refused:
            context.rights.forget(caller.key, oid)
    return answered


def _ends_rights(status: int, asked: Asked | None, *, is_stranger: bool) -> bool:
    """Return whether a batch is refused so that its caller has no rights any more.

    All strangers of a repository are one caller, of whom one with an odd request ends nothing for the others: only the
    plain download for which all of them need credentials does.
    """
    if not is_stranger:
        return status in _FORGETTING
    is_usual = asked is not None and asked.is_download and asked.is_plain
    return status == httpx.codes.UNAUTHORIZED and is_usual


class _Known:
    """The answers that the download of some objects can have without the upstream."""

    def __init__(
        self,
        request: Request,
        context: CacheContext,
        maker: ActionMaker,
        caller: Caller,
        objects: Sequence[tuple[str, int]],
    ) -> None:
        self._request = request
        self._context = context
        self._maker = maker
        self._caller = caller
        self._objects = objects

    async def answer_remembered(self) -> Response | None:
        """Return the answer that needs no new word of the upstream, if there is one."""
        seconds = self._context.settings.cache_right_seconds
        if not self._objects or not all(self._may_have(oid, size, seconds) for oid, size in self._objects):
            return None
        return await self._answer([True] * len(self._objects), "memory", metrics.BATCHES_FROM_MEMORY)

    async def answer_while_away(self) -> Response | None:
        """Return the answer while the upstream is away, if there is an object that the caller may have."""
        seconds = self._context.settings.cache_away_seconds
        here = [self._may_have(oid, size, seconds) for oid, size in self._objects]
        return await self._answer(here, "away", metrics.BATCHES_WHILE_AWAY) if any(here) else None

    def may_need_credentials(self, authorization: Sequence[str]) -> bool:
        """Return whether the caller has shown none, and others have a right that serves while the upstream is away."""
        is_allowed = self._context.settings.cache_away_seconds > 0 and self._context.rights.is_any_remembered
        return not authorization and bool(self._objects) and is_allowed

    def _may_have(self, oid: str, size: int, seconds: float) -> bool:
        since = self._context.rights.seconds_since(self._caller, oid)
        return since is not None and since < seconds and self._context.objects.has(oid, size)

    async def _answer(self, here: Sequence[bool], source: str, counter: Counter) -> Response | None:
        headers = self._request.headers
        dialect = negotiate(headers.getlist("accept"), headers.get("content-type"))
        # Only the upstream says how it refuses what it cannot answer in the caller's dialect.
        if dialect is None:
            return None
        body = await _off_loop(len(here) * _ENTRY_BYTES, self._entries, here)
        counter.inc()
        add_log_fields(self._request.scope, rights=source)
        return json_response(body, dialect)

    def _entries(self, here: Sequence[bool]) -> bytes:
        entries = [
            self._maker.kept(oid, size) if is_here else {"oid": oid, "size": size, "error": _AWAY}
            for (oid, size), is_here in zip(self._objects, here, strict=True)
        ]
        return to_json({"transfer": _BASIC, "objects": entries, "hash_algo": _SHA_256})


async def _from_upstream(
    request: Request,
    address: Address,
    context: CacheContext,
    maker: ActionMaker,
    headers: list[tuple[bytes, bytes]],
    body: bytes,
) -> tuple[Response, "Replaced | None"]:
    """Return the upstream's answer with the actions of the cache; None where it has none of the interface."""
    url = context.upstream.url(address.path, request.scope["query_string"])
    async with context.upstream.request("POST", url, headers, body) as response:
        data = await _bounded(response)
        # The body may have another length soon.
        passed = to_client(context, request, response, without=("content-length",))
    metrics.BATCHES_BY_UPSTREAM.inc()
    add_log_fields(request.scope, rights="upstream")
    replaced = None
    if response.status_code == httpx.codes.OK:
        replaced = await _off_loop(len(data), _replaced, data, maker)
    answered = Response(data if replaced is None else replaced.content, status_code=response.status_code)
    answered.raw_headers = [*answered.raw_headers, *passed]
    return answered, replaced


async def _bounded(response: httpx.Response) -> bytes:
    data = bytearray()
    async for chunk in readable(response):
        data += chunk
        if len(data) > _MAX_ANSWER_BYTES:
            raise invalid_reply("upstream", f"its answer has more than {_MAX_ANSWER_BYTES} bytes")
    return bytes(data)


async def _off_loop(
    size: int, function: Callable[Parameters, Result], /, *args: Parameters.args, **kwargs: Parameters.kwargs
) -> Result:
    """Call a function whose work grows with `size` bytes, in a thread where others would wait for it."""
    if size > _MAX_INLINE_BYTES:
        return await run_in_thread(function, *args, **kwargs)
    return function(*args, **kwargs)


def _understood(body: bytes, max_objects: int) -> tuple[Asked | None, bytes]:
    """Return the part of a batch request that the cache understands, and the request to the upstream.

    It asks for the basic transfer, because no other can be answered here. Where it names objects by another hash or
    does not have the shape of the interface, only the upstream understands it. Raises the errors of `check_lengths`.
    """
    try:
        asked = from_json(body)
    except ValueError:
        return None, body
    check_lengths(asked, max_objects=max_objects)
    if not isinstance(asked, dict) or asked.get("hash_algo") not in (None, _SHA_256):
        return None, body
    transfers, operation, entries = asked.get("transfers") or [_BASIC], asked.get("operation"), asked.get("objects")
    if not isinstance(transfers, list) or _BASIC not in transfers or operation not in ("download", "upload"):
        return None, body
    ref = asked.get("ref") or {}
    ref_name = ref.get("name") if isinstance(ref, dict) else None
    objects = [
        (entry["oid"], entry["size"])
        for entry in (entries if isinstance(entries, list) else [])
        if isinstance(entry, dict) and is_oid(entry.get("oid")) and isinstance(entry.get("size"), int)
    ]
    if not isinstance(entries, list) or len(objects) != len(entries) or not isinstance(ref_name or "", str):
        return None, body
    is_plain = (
        bool(objects)
        and asked.keys() <= _FIELDS
        and isinstance(ref, dict)
        and ref.keys() <= {"name"}
        and all(entry.keys() == {"oid", "size"} for entry in entries)
    )
    # As it was understood: of a field that is there twice, the upstream may take the other one.
    narrowed = to_json({**asked, "transfers": [_BASIC]})
    return Asked(operation == "download", ref_name or "", objects, is_plain), narrowed


@dataclass(frozen=True)
class Replaced:
    """An answer whose actions are those of the cache, and the oids that it allows and refuses."""

    content: bytes
    allowed: Sequence[str]
    refused: Sequence[str]


def _replaced(data: bytes, maker: ActionMaker) -> Replaced | None:
    try:
        answered = from_json(data)
    except ValueError:
        return None
    if not isinstance(answered, dict):
        return None
    if answered.get("transfer") not in (None, _BASIC) or answered.get("hash_algo") not in (None, _SHA_256):
        return None
    allowed, refused = maker.replace(answered)
    return Replaced(to_json(answered), allowed, refused)
