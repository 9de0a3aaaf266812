"""gRPC handler of CollectGarbage, and its messages."""

import asyncio
import datetime
from collections.abc import AsyncIterator, Sequence
from typing import Any

import grpc
from towpath.storage.v1 import storage_service_pb2 as pb
from towpath.storage.v1.storage_service_pb2_grpc import StorageServiceServicer

from services.common.errors import DeadlineExceeded, InvalidArgument, Reason
from services.common.rpc.log_fields import add_log_fields
from services.common.rpc.streams import within
from services.storage import metrics, validation
from services.storage.api.messages import object_message
from services.storage.context import StorageContext
from services.storage.garbage.collect import CollectionTerms, Progress, Result, Step, Summary, collect_garbage
from services.storage.garbage.retained import ListEnd
from services.storage.index import turns

_MAX_LISTED_SECONDS = 24 * 3600
_MAX_GRACE_SECONDS = 100 * 365 * 24 * 3600
_MIN_EVERY_SECONDS, _MAX_EVERY_SECONDS = 3600, 366 * 24 * 3600
_MAX_HOLDER = 64


GARBAGE_METHODS = ("CollectGarbage", "TakeCollectionTurn")
"""The methods of `GarbageCalls`, which are reserved for administration."""


class GarbageCalls(StorageServiceServicer):
    """The part of StorageService that collects garbage."""

    _context: StorageContext

    async def CollectGarbage(  # type: ignore[override] # stubs know only generators of responses
        self, request_iterator: AsyncIterator[pb.CollectGarbageRequest], context: grpc.aio.ServicerContext[Any, Any]
    ) -> None:
        """Receive a header and what is retained, and answer with what is garbage."""
        idle_seconds = self._context.idle_seconds
        messages = within(aiter(request_iterator), idle_seconds)

        async def tell(step: Step) -> None:
            try:
                async with asyncio.timeout(idle_seconds):
                    await context.write(step_message(step))
            except TimeoutError as error:
                raise DeadlineExceeded(
                    Reason.DEADLINE_EXCEEDED, f"the answer was not read for {idle_seconds:g} s"
                ) from error

        repository_id, terms = _header_of(await anext(messages, None))
        add_log_fields(repository_id=repository_id)
        with metrics.collection_decided(apply=terms.apply):
            await collect_garbage(self._context, repository_id, terms, _parts(messages), tell)

    async def TakeCollectionTurn(
        self, request: pb.TakeCollectionTurnRequest, _context: object
    ) -> pb.TakeCollectionTurnResponse:
        """Take, keep or end a turn."""
        if not 1 <= len(request.holder) <= _MAX_HOLDER:
            raise InvalidArgument(Reason.INVALID_FIELD, f"holder: expected 1 to {_MAX_HOLDER} characters")
        asked = turns.Turn(
            validation.repository_id(request.repository_id),
            request.holder,
            _seconds("every_seconds", request.every_seconds, _MAX_EVERY_SECONDS, least=_MIN_EVERY_SECONDS),
        )
        if request.outcome == pb.COLLECTION_OUTCOME_UNSPECIFIED:
            waited = await turns.take(self._context.database, asked)
            return pb.TakeCollectionTurnResponse(is_taken=waited is None, wait_seconds=waited or 0)
        is_done = request.outcome == pb.COLLECTION_OUTCOME_DONE
        if not is_done and request.outcome != pb.COLLECTION_OUTCOME_FAILED:
            raise InvalidArgument(Reason.INVALID_FIELD, "outcome: expected one that is known")
        return pb.TakeCollectionTurnResponse(wait_seconds=await turns.end(self._context.database, asked, done=is_done))


def _header_of(message: pb.CollectGarbageRequest | None) -> tuple[int, CollectionTerms]:
    if message is None or message.WhichOneof("content") != "header":
        raise InvalidArgument(Reason.MALFORMED_STREAM, "the first message: expected a header")
    header, terms = message.header, message.header.terms
    listed_ago = _seconds("terms.listed_seconds_ago", terms.listed_seconds_ago, _MAX_LISTED_SECONDS)
    if not 1 <= terms.most_percent <= 100:
        raise InvalidArgument(Reason.INVALID_FIELD, f"terms.most_percent: expected 1 to 100, got {terms.most_percent}")
    return validation.repository_id(header.repository_id), CollectionTerms(
        listed_ago=listed_ago,
        grace=_seconds("terms.grace_seconds", terms.grace_seconds, _MAX_GRACE_SECONDS),
        most_percent=terms.most_percent,
        apply=terms.apply,
        list=terms.list,
        reason=validation.removal_text("reason", header.reason, required=terms.apply),
        removed_by=validation.removal_text("removed_by", header.removed_by, required=False),
    )


def _seconds(name: str, value: int, most: int, *, least: int = 0) -> datetime.timedelta:
    if not least <= value <= most:
        raise InvalidArgument(Reason.INVALID_FIELD, f"{name}: expected {least} to {most}, got {value}")
    return datetime.timedelta(seconds=value)


async def _parts(messages: AsyncIterator[pb.CollectGarbageRequest]) -> AsyncIterator[Sequence[str] | ListEnd]:
    async for message in messages:
        match message.WhichOneof("content"):
            case "retained":
                yield list(message.retained.oids)
            case "end":
                yield ListEnd(message.end.count, message.end.digest)
            case _:
                raise InvalidArgument(
                    Reason.MALFORMED_STREAM, "a message after the first: expected retained objects, or the end"
                )


def step_message(step: Step) -> pb.CollectGarbageResponse:
    """Return the message of a step of a collection."""
    match step:
        case Summary():
            return pb.CollectGarbageResponse(summary=_summary_message(step))
        case Progress():
            return pb.CollectGarbageResponse(progress=pb.CollectionResult(**step._asdict()))
        case Result(progress):
            return pb.CollectGarbageResponse(result=pb.CollectionResult(**progress._asdict()))
        case _:
            return pb.CollectGarbageResponse(garbage=pb.GarbageList(objects=map(object_message, step)))


def _summary_message(summary: Summary) -> pb.GarbageSummary:
    tally = summary.tally
    message = pb.GarbageSummary(
        garbage_count=tally.garbage_count,
        garbage_bytes=tally.garbage_bytes,
        freed_bytes=tally.freed_bytes,
        held_count=tally.held_count,
        held_bytes=tally.held_bytes,
        grace_count=tally.grace_count,
        retained_count=summary.retained_count,
        retained_held_count=tally.retained_held_count,
        returning_count=summary.returning_count,
    )
    if tally.oldest is not None and tally.newest is not None:
        message.oldest_created_at.FromDatetime(tally.oldest)
        message.newest_created_at.FromDatetime(tally.newest)
    return message
