"""The bytes of one object as the upstream sends them: redirects followed, and gone on where a connection broke."""

import asyncio
import hashlib
import re
from collections.abc import AsyncGenerator
from contextlib import aclosing

import httpx

from services.cache import metrics
from services.cache.tokens import Grant
from services.cache.upstream import Upstream, UpstreamAway, encoded, is_same_origin, readable
from services.common.errors import (
    DataLoss,
    NotFound,
    PermissionDenied,
    Reason,
    ResourceExhausted,
    ServiceError,
)
from services.common.outbound import parse_url
from services.facade.web.error_reasons import invalid_reply

_REDIRECTS = (301, 302, 303, 307, 308)
_MAX_REDIRECTS = 5
_MAX_ATTEMPTS = 4
_PAUSE_SECONDS = 0.5
_CONTENT_RANGE = re.compile(r"bytes ([0-9]{1,19})-[0-9]+/", re.IGNORECASE | re.ASCII)
_RETRY_SECONDS = "10"
_MAX_RETRY_CHARACTERS = 40


def _damaged(grant: Grant, problem: str) -> DataLoss:
    """Return the error for an object that is not what its oid says."""
    return DataLoss(Reason.OBJECT_DAMAGED, f"the upstream sent something else as object {grant.oid}: {problem}")


def check_hash(grant: Grant, hashed: "hashlib._Hash") -> None:
    """Raise `DataLoss` (OBJECT_DAMAGED) unless the bytes that were hashed are the object."""
    if hashed.hexdigest() != grant.oid:
        raise _damaged(grant, "the hash differs")


async def read_object(upstream: Upstream, grant: Grant) -> AsyncGenerator[bytes, None]:
    """Yield the object that the action of a grant downloads: `grant.size` bytes, not hashed.

    A connection that breaks is made again for the rest, a few times. Raises `UpstreamAway`; the error by which the
    upstream refuses the action; and `DataLoss` (OBJECT_DAMAGED) where it sends another number of bytes.
    """
    position = 0
    attempt = 1
    while True:
        try:
            async with aclosing(_attempt(upstream, grant, position)) as chunks:
                async for chunk in chunks:
                    position += len(chunk)
                    metrics.FETCHED_BYTES.inc(len(chunk))
                    if position > grant.size:
                        raise _damaged(grant, f"more than {grant.size} bytes")
                    yield chunk
        except UpstreamAway:
            if attempt == _MAX_ATTEMPTS or not position:
                raise
        else:
            if position < grant.size:
                raise _damaged(grant, f"{position} of {grant.size} bytes")
            return
        await asyncio.sleep(_PAUSE_SECONDS * attempt)
        attempt += 1


async def _attempt(upstream: Upstream, grant: Grant, position: int) -> AsyncGenerator[bytes, None]:
    """Yield the bytes from a position on."""
    first = at = httpx.URL(grant.url)
    for _ in range(_MAX_REDIRECTS + 1):
        if not upstream.may_reach(at):
            raise invalid_reply("upstream", f"expected https for objects, got {at.scheme}://{at.host}")
        # Credentials are for the host that the upstream has named them for.
        headers = encoded(grant.headers) if is_same_origin(at, first) else []
        if position:
            headers.append((b"range", b"bytes=%d-" % position))
        async with upstream.request("GET", at, headers) as response:
            if response.status_code in _REDIRECTS:
                at = parse_url(response.headers.get("location", ""), at)
                continue
            _check(response)
            async with aclosing(_body(response, position)) as chunks:
                async for chunk in chunks:
                    yield chunk
            return
    raise invalid_reply("upstream", "it redirects without an end")


async def _body(response: httpx.Response, position: int) -> AsyncGenerator[bytes, None]:
    unwanted = position
    if response.status_code == httpx.codes.PARTIAL_CONTENT:
        found = _CONTENT_RANGE.match(response.headers.get("content-range", ""))
        if found is None or int(found[1]) != position:
            raise invalid_reply("upstream", "the content-range is not the one that was asked for")
        unwanted = 0
    async for chunk in readable(response):
        rest = chunk[unwanted:]
        unwanted -= len(chunk) - len(rest)
        if rest:
            yield rest


def _check(response: httpx.Response) -> None:
    """Raise the error by which the upstream refuses an action."""
    status = response.status_code
    if status in (httpx.codes.OK, httpx.codes.PARTIAL_CONTENT):
        return
    metrics.UPSTREAM_ERRORS.labels("refused").inc()
    raise _refusal(status, response.headers.get("retry-after", "")[:_MAX_RETRY_CHARACTERS])


def _refusal(status: int, retry_after: str) -> ServiceError:
    if status in (401, 403):
        return PermissionDenied(Reason.ACCESS_DENIED, "the upstream refuses the download; ask by a new batch request")
    if status == 404:
        return NotFound(Reason.OBJECT_NOT_FOUND, "the upstream does not have the object")
    if status == 410:
        return NotFound(Reason.OBJECT_REMOVED, "the object was removed from the upstream")
    if status == 429:
        return ResourceExhausted(
            Reason.RATE_LIMITED, "the upstream asks for fewer requests", retry_after=retry_after or _RETRY_SECONDS
        )
    return invalid_reply("upstream", f"status {status} to a download")
