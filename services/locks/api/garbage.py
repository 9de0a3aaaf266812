"""Collections of garbage, passed on to the storage service and recorded in the audit log."""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import aclosing
from functools import partial
from typing import Any, TypeVar

import grpc
from google.protobuf.message import Message
from towpath.access.v1 import access_service_pb2 as access
from towpath.access.v1 import admin_service_pb2 as admin
from towpath.storage.v1 import storage_service_pb2 as pb

from services.common.errors import DeadlineExceeded, InvalidArgument, Reason
from services.common.rpc.streams import exchange, within
from services.database.transactions import Database
from services.locks.api.audit_messages import message_fields
from services.locks.audit.event_types import GARBAGE_COLLECTED
from services.locks.audit.recorder import record
from services.locks.storage_client import COLLECT_GARBAGE, StorageClient

# The storage service looks through all objects of a repository before it answers.
_ANSWER_SECONDS = 600.0
_IDLE_SECONDS = 60.0

_Request = TypeVar("_Request", admin.CollectGarbageRequest, access.RetainObjectsRequest)


async def collect_garbage(
    database: Database,
    storage: StorageClient,
    header: pb.CollectGarbageRequest.Header,
    rest: AsyncIterator[_Request],
    *,
    arrived: float,
    repository: str,
    tell: Callable[[pb.CollectGarbageResponse], Awaitable[None]],
) -> None:
    """Collect garbage as `header` says, keeping what `rest` lists, and pass the answer to `tell`.

    `arrived` is the time of `time.monotonic` at which the header came. What was removed or came back is recorded as an
    event of the audit log, also if the collection ends early. Raises the errors of StorageService.CollectGarbage.
    """
    done = pb.CollectionResult()

    async def messages() -> AsyncIterator[pb.CollectGarbageRequest]:
        # Storage counts from the time at which the header comes to it.
        header.terms.listed_seconds_ago += int(time.monotonic() - arrived)
        yield pb.CollectGarbageRequest(header=header)
        async for request in within(rest, _IDLE_SECONDS):
            yield _passed_on(request)

    responses = exchange(
        storage,
        COLLECT_GARBAGE,
        messages(),
        pb.CollectGarbageResponse,
        answer_seconds=_ANSWER_SECONDS,
    )
    try:
        async with aclosing(responses):
            async for response in responses:
                kind = response.WhichOneof("content")
                if kind in ("progress", "result"):
                    done = response.progress if kind == "progress" else response.result
                await tell(response)
    finally:
        if done.removed_count or done.returned_count:
            event = partial(
                record,
                type_=GARBAGE_COLLECTED,
                subject=f"garbage of {repository}",
                repository=repository,
                after={"reason": header.reason, **message_fields(done)},
            )
            await database.run(event)


def _passed_on(request: admin.CollectGarbageRequest | access.RetainObjectsRequest) -> pb.CollectGarbageRequest:
    match request.WhichOneof("content"):
        case "retained":
            return pb.CollectGarbageRequest(retained=request.retained)
        case "end":
            return pb.CollectGarbageRequest(end=request.end)
        case _:
            raise InvalidArgument(
                Reason.MALFORMED_STREAM, "a message after the first: expected retained objects, or the end"
            )


async def first_of(requests: AsyncIterator[_Request]) -> tuple[_Request, float]:
    """Return the first message of a stream, and the time of `time.monotonic` at which it came.

    Raises `InvalidArgument` (MALFORMED_STREAM) if it is not a header.
    """
    first = await anext(within(requests, _IDLE_SECONDS), None)
    if first is None or first.WhichOneof("content") != "header":
        raise InvalidArgument(Reason.MALFORMED_STREAM, "the first message: expected a header")
    return first, time.monotonic()


def teller(
    context: grpc.aio.ServicerContext[Any, Any], response: Callable[..., Message]
) -> Callable[[pb.CollectGarbageResponse], Awaitable[None]]:
    """Return a function that writes the responses of the storage service as responses of another call."""

    async def tell(told: pb.CollectGarbageResponse) -> None:
        kind = told.WhichOneof("content")
        if kind is None:
            return
        try:
            async with asyncio.timeout(_IDLE_SECONDS):
                await context.write(response(**{kind: getattr(told, kind)}))
        except TimeoutError as error:
            raise DeadlineExceeded(
                Reason.DEADLINE_EXCEEDED, f"the answer was not read for {_IDLE_SECONDS:g} s"
            ) from error

    return tell
