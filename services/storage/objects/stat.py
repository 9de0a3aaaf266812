"""The status of objects in a repository, and their list."""

from collections.abc import Sequence
from enum import Enum, auto
from functools import partial
from typing import NamedTuple

from services.storage.context import StorageContext
from services.storage.index import objects
from services.storage.index.contents import BlobLocation
from services.storage.index.lookups import Located
from services.storage.index.objects import Record
from services.storage.intent import Intent
from services.storage.objects.announce import announced


class Status(Enum):
    """The status of an object in a repository."""

    PRESENT = auto()
    MISSING = auto()
    REMOVED = auto()
    DAMAGED = auto()


class ObjectKey(NamedTuple):
    """A requested object, with the size that the caller believes it has."""

    oid: str
    size: int


class ObjectStat(NamedTuple):
    """The answer for one object: its size and locations if it is present, the reason if it was removed."""

    status: Status
    size: int = 0
    removal_reason: str = ""
    locations: Sequence[BlobLocation] = ()


_MISSING, _DAMAGED = ObjectStat(Status.MISSING), ObjectStat(Status.DAMAGED)
_TO_BE_WRITTEN = (Status.MISSING, Status.DAMAGED)


async def stat_objects(
    context: StorageContext, repository_id: int, keys: Sequence[ObjectKey], intent: Intent
) -> list[ObjectStat]:
    """Return one answer for each key, in order. Raises what BatchStatObjects documents."""
    located = await context.lookups.locate(repository_id, {key.oid for key in keys})
    if intent is Intent.WRITE:
        located = await announced(context, repository_id, located)
    if intent is Intent.READ:
        context.reads.note(repository_id, located)
    found = {entry.oid: _answer(entry) for entry in located}
    answers = [found.get(key.oid, _MISSING) for key in keys]
    if intent is Intent.READ and any(answer.status is Status.PRESENT for answer in answers):
        await context.quota.check(repository_id)
    if intent is Intent.WRITE and (size := missing_bytes(keys, answers)) is not None:
        await context.quota.check(repository_id)
        await context.space.require(size)
    return answers


def missing_bytes(keys: Sequence[ObjectKey], answers: Sequence[ObjectStat]) -> int | None:
    """Return the number of bytes to be written for missing and damaged objects; None if there are none."""
    sizes = {key.oid: key.size for key, answer in zip(keys, answers, strict=True) if answer.status in _TO_BE_WRITTEN}
    return sum(sizes.values()) if sizes else None


def _answer(located: Located) -> ObjectStat:
    """Return the status according to the index alone: lost blobs are found by reads, and by `towpath check`."""
    if located.is_removed:
        return ObjectStat(Status.REMOVED, removal_reason=located.removal_reason or "")
    if not located.locations:
        return _DAMAGED if located.damaged else _MISSING
    return ObjectStat(Status.PRESENT, located.size, "", located.locations)


async def list_objects(
    context: StorageContext, repository_id: int, *, cursor: str, limit: int
) -> tuple[list[Record], str]:
    """Return up to `limit` records by oid after the oid `cursor`, and the next cursor, empty on the last page."""
    records = await context.database.run(
        partial(objects.page, repository_id=repository_id, after=cursor, limit=limit + 1)
    )
    page = records[:limit]
    return page, page[-1].oid if len(records) > limit else ""
