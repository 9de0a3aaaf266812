"""Whether a repository holds objects."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum, auto

from sqlalchemy.ext.asyncio import AsyncConnection

from services.common.logs import get_logger
from services.storage import index
from services.storage.intent import Intent
from services.storage.metrics import OBJECTS_MISSING
from services.storage.models import Object
from services.storage.store import Store

_log = get_logger(__name__)


class Status(Enum):
    """Whether a repository holds an object."""

    PRESENT = auto()
    MISSING = auto()
    REMOVED = auto()


@dataclass(frozen=True)
class ObjectKey:
    """An object asked about, with the size that the caller believes it has."""

    oid: str
    size: int


@dataclass(frozen=True)
class ObjectStat:
    """The answer for one object: its size where it is present, the reason where it was removed."""

    status: Status
    size: int = 0
    removal_reason: str = ""


async def stat_objects(store: Store, repository_id: int, keys: Sequence[ObjectKey], intent: Intent) -> list[ObjectStat]:
    """Return one answer for each key, in order. Raises what BatchStatObjects documents."""
    found = await _find(store, repository_id, {key.oid for key in keys})
    answers = [found.get(key.oid, ObjectStat(Status.MISSING)) for key in keys]
    if intent is Intent.READ and any(answer.status is Status.PRESENT for answer in answers):
        await store.traffic.require(repository_id)
    if intent is Intent.WRITE and (size := missing_bytes(keys, answers)) is not None:
        await store.traffic.require(repository_id)
        await store.room.require(size)
    return answers


def missing_bytes(keys: Sequence[ObjectKey], answers: Sequence[ObjectStat]) -> int | None:
    """Return the bytes that would be written for the objects that are missing; None where none is."""
    sizes = {key.oid: key.size for key, answer in zip(keys, answers, strict=True) if answer.status is Status.MISSING}
    return sum(sizes.values()) if sizes else None


async def _find(store: Store, repository_id: int, oids: set[str]) -> dict[str, ObjectStat]:
    found = await _locate(store, repository_id, oids)
    there = await _sizes(store, found)
    lost = {record.oid for record, name in found if record.removed_at is None and there.get(name) != record.size}
    if lost:
        # Some may have been removed or replaced between the two looks; what the index still holds is lost.
        found = await _locate(store, repository_id, oids)
        there = await _sizes(store, found)
        for record, name in found:
            if record.removed_at is None and there.get(name) != record.size:
                OBJECTS_MISSING.inc()
                _log.error(
                    "bytes of an object are lost",
                    repository_id=repository_id,
                    oid=record.oid,
                    expected=record.size,
                    found=there.get(name),
                )
    return {record.oid: _answer(record, there.get(name)) for record, name in found}


async def _sizes(store: Store, found: list[tuple[Object, str]]) -> dict[str, int]:
    """Return how many bytes are there by name; those of a remote backend are believed to be as the index says."""
    held = {name: record.size for record, name in found if record.removed_at is None and name}
    return held if store.backend.is_remote else await store.backend.sizes(held)


def _answer(record: Object, size: int | None) -> ObjectStat:
    if record.removed_at is not None:
        return ObjectStat(Status.REMOVED, removal_reason=record.removal_reason or "")
    if size != record.size:
        return ObjectStat(Status.MISSING)
    return ObjectStat(Status.PRESENT, size=record.size)


async def _locate(store: Store, repository_id: int, oids: set[str]) -> list[tuple[Object, str]]:
    async def work(connection: AsyncConnection) -> list[tuple[Object, str]]:
        return await index.locate(connection, repository_id, list(oids))

    return await store.database.run(work)
