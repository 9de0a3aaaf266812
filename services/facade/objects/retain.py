"""Collection of garbage: what a client retains is passed on while it arrives.

See docs/protocol.md, "Collection of garbage".
"""

import asyncio
import re
import time
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import aclosing
from dataclasses import dataclass

from towpath.access.v1 import access_service_pb2 as pb
from towpath.storage.v1 import storage_service_pb2 as storage

from services.common.errors import DeadlineExceeded, InvalidArgument, Reason, ResourceExhausted
from services.common.rpc.streams import exchange
from services.facade.clients.services import ACCESS_SERVICE, ServiceClients
from services.facade.web.error_reasons import HttpReason, invalid_reply
from services.facade.web.garbage_schemas import CollectionAnswer
from services.facade.web.responses import timestamp

# Storage looks through all objects of a repository before it answers.
_ANSWER_SECONDS = 600.0
_BODY_SECONDS = 3600.0
_MESSAGE_OIDS = 10_000
# A list of 50,000,000 oids, the most that storage takes, with a carriage return in each line.
_MAX_BYTES = 50_000_000 * 66 + 200
_MAX_LINE_BYTES = 200
_END = re.compile(r"end ([0-9]{1,18}) ([0-9a-f]{64})", re.ASCII)
_REASON = "no ref of the git repository names it"


@dataclass(frozen=True)
class RetainQuery:
    """The terms that the query of a request names."""

    apply: bool
    grace_seconds: int
    most_percent: int
    age_seconds: int


# The default, the least and the most of each number.
_NUMBERS = {"grace": (14 * 24 * 3600, 0, 100 * 365 * 24 * 3600), "most": (50, 1, 100), "age": (0, 0, 24 * 3600 - 60)}


def parse_query(query: Mapping[str, str]) -> RetainQuery:
    """Return the terms in a query. Raises `InvalidArgument` (INVALID_FIELD) that names the parameter."""
    apply = query.get("apply", "false")
    if apply not in ("true", "false"):
        raise InvalidArgument(Reason.INVALID_FIELD, f"apply: expected true or false, got {apply[:80]!a}")
    numbers = {name: _number(name, query.get(name), *bounds) for name, bounds in _NUMBERS.items()}
    return RetainQuery(apply == "true", numbers["grace"], numbers["most"], numbers["age"])


def _number(name: str, text: str | None, default: int, least: int, most: int) -> int:
    if text is None:
        return default
    value = int(text) if text.isascii() and text.isdecimal() and len(text) <= 10 else -1
    if not least <= value <= most:
        raise InvalidArgument(Reason.INVALID_FIELD, f"{name}: expected {least} to {most}, got {text[:80]!a}")
    return value


async def retain(
    clients: ServiceClients,
    repository: str,
    credential: str,
    query: RetainQuery,
    body: AsyncIterator[bytes],
) -> CollectionAnswer:
    """Collect the garbage of a repository, as the user of a credential: what the lines of the body do not retain.

    Raises the errors of AccessService.RetainObjects and of `body`, `InvalidArgument` for a malformed line,
    `ResourceExhausted` (BODY_TOO_LARGE), and `DeadlineExceeded` (CLIENT_SLOW).
    """
    began = time.monotonic()

    async def messages() -> AsyncIterator[pb.RetainObjectsRequest]:
        terms = storage.CollectionTerms(
            # More than it is, because what came meanwhile must not be taken for garbage, and services round down.
            listed_seconds_ago=query.age_seconds + int(time.monotonic() - began) + 2,
            grace_seconds=query.grace_seconds,
            most_percent=query.most_percent,
            apply=query.apply,
        )
        yield pb.RetainObjectsRequest(
            header=pb.RetainObjectsRequest.Header(
                repository=repository, credential=credential, terms=terms, reason=_REASON
            )
        )
        async with aclosing(_parsed(_bounded(body))) as parsed:
            async for message in parsed:
                yield message

    summary, result = None, None
    responses = exchange(
        clients.locks,
        f"/{ACCESS_SERVICE}/RetainObjects",
        messages(),
        pb.RetainObjectsResponse,
        answer_seconds=_ANSWER_SECONDS,
    )
    async with aclosing(responses):
        async for response in responses:
            if response.HasField("summary"):
                summary = response.summary
            if response.HasField("result"):
                result = response.result
    if summary is None or (query.apply and result is None):
        raise invalid_reply("RetainObjects", "the reply lacks the summary or the result")
    return answer_of(summary, result)


async def _bounded(body: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    rest = _MAX_BYTES
    ends_at = asyncio.get_running_loop().time() + _BODY_SECONDS
    async for data in body:
        rest -= len(data)
        if rest < 0:
            raise ResourceExhausted(HttpReason.BODY_TOO_LARGE, f"body: expected at most {_MAX_BYTES} bytes")
        if asyncio.get_running_loop().time() > ends_at:
            raise DeadlineExceeded(HttpReason.CLIENT_SLOW, f"body: expected within {_BODY_SECONDS:g} seconds")
        yield data


async def _parsed(body: AsyncIterator[bytes]) -> AsyncGenerator[pb.RetainObjectsRequest, None]:
    """Yield the messages of a list. What follows its end is not read as a part of it, but refused."""
    oids: list[str] = []
    number, is_ended = 0, False
    async for line in _lines(body):
        number += 1
        if is_ended:
            raise InvalidArgument(Reason.INVALID_FIELD, f"body: line {number}: expected nothing after the end")
        if match := _END.fullmatch(line):
            if oids:
                yield _message_of(oids)
            yield pb.RetainObjectsRequest(end=storage.RetainedEnd(count=int(match[1]), digest=match[2]))
            is_ended = True
        else:
            # Whether it is an oid is seen by storage.
            oids.append(line)
            if len(oids) == _MESSAGE_OIDS:
                yield _message_of(oids)
                oids = []
    if not is_ended:
        raise InvalidArgument(
            Reason.INVALID_FIELD, f"body: expected `end COUNT DIGEST` after {number} lines; the list is cut off"
        )


def _message_of(oids: list[str]) -> pb.RetainObjectsRequest:
    return pb.RetainObjectsRequest(retained=storage.RetainedObjects(oids=oids))


async def _lines(body: AsyncIterator[bytes]) -> AsyncIterator[str]:
    """Yield the lines of the body. Raises `InvalidArgument` for one that is too long or not ASCII."""
    rest = b""
    async for data in body:
        *lines, rest = (rest + data).split(b"\n")
        if len(rest) > _MAX_LINE_BYTES:
            raise _malformed(rest)
        for line in lines:
            yield _text_of(line)
    if rest:
        yield _text_of(rest)


def _text_of(line: bytes) -> str:
    if len(line) > _MAX_LINE_BYTES or not line.isascii():
        raise _malformed(line)
    return line.decode().removesuffix("\r")


def _malformed(line: bytes) -> InvalidArgument:
    return InvalidArgument(
        Reason.INVALID_OID, f"body: expected lines of 64 lower-case hexadecimal digits, got {line[:80]!r}"
    )


def answer_of(summary: storage.GarbageSummary, result: storage.CollectionResult | None) -> CollectionAnswer:
    """Return the body of the answer."""
    has_garbage = summary.garbage_count > 0
    return CollectionAnswer(
        garbage_count=summary.garbage_count,
        garbage_bytes=summary.garbage_bytes,
        freed_bytes=summary.freed_bytes,
        oldest_created_at=timestamp(summary.oldest_created_at.seconds) if has_garbage else None,
        newest_created_at=timestamp(summary.newest_created_at.seconds) if has_garbage else None,
        held_count=summary.held_count,
        held_bytes=summary.held_bytes,
        grace_count=summary.grace_count,
        retained_count=summary.retained_count,
        retained_held_count=summary.retained_held_count,
        returning_count=summary.returning_count,
        applied=result is not None,
        removed_count=result.removed_count if result else 0,
        removed_bytes=result.removed_bytes if result else 0,
        returned_count=result.returned_count if result else 0,
    )
