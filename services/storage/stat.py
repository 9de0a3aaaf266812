"""Whether a repository holds objects."""

from collections.abc import Sequence
from enum import Enum, auto
from typing import NamedTuple

from services.common.logs import get_logger
from services.storage.contents import Placed
from services.storage.doubts import doubt
from services.storage.index import Located
from services.storage.intent import Intent
from services.storage.metrics import OBJECTS_MISSING
from services.storage.store import Store

_log = get_logger(__name__)


class Status(Enum):
    """Whether a repository holds an object."""

    PRESENT = auto()
    MISSING = auto()
    REMOVED = auto()


class ObjectKey(NamedTuple):
    """An object asked about, with the size that the caller believes it has."""

    oid: str
    size: int


class ObjectStat(NamedTuple):
    """The answer for one object: its size and places where it is present, the reason where it was removed."""

    status: Status
    size: int = 0
    removal_reason: str = ""
    placed: Sequence[Placed] = ()


_MISSING = ObjectStat(Status.MISSING)


async def stat_objects(store: Store, repository_id: int, keys: Sequence[ObjectKey], intent: Intent) -> list[ObjectStat]:
    """Return one answer for each key, in order. Raises what BatchStatObjects documents."""
    found = await _find(store, repository_id, {key.oid for key in keys})
    answers = [found.get(key.oid, _MISSING) for key in keys]
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
    found = await store.lookups.locate(repository_id, oids)
    there, wrong = await _look(store, found)
    if wrong or len(there) < sum(not located.is_removed for located in found):
        # Some may have been removed or replaced between the two looks; what the index still says is not so.
        found = await store.lookups.locate(repository_id, oids)
        there, wrong = await _look(store, found)
        await doubt(store, wrong)
        for located in found:
            if _is_lost(located, there):
                OBJECTS_MISSING.inc()
                _log.error("bytes of an object are lost", repository_id=repository_id, oid=located.oid)
    return {located.oid: _answer(located, there) for located in found}


async def _look(store: Store, found: list[Located]) -> tuple[set[str], list[Placed]]:
    """Return of which objects that are held some store has the bytes, and which are not where the index says.

    Those of remote backends are believed to be as the index says, and doubted ones nowhere.
    """
    held = [located for located in found if not located.is_removed]
    there: set[str] = set()
    wrong: list[Placed] = []
    for place in store.places.all:
        names = {
            name: located
            for located in held
            if located.oid not in there
            for store_id, name in located.placed
            if store_id == place.id
        }
        if place.backend.is_remote:
            there.update(located.oid for located in names.values())
        elif names:
            sizes = await place.backend.sizes(names)
            for name, located in names.items():
                if sizes.get(name) == located.size:
                    there.add(located.oid)
                else:
                    wrong.append(Placed(place.id, name))
    return there, wrong


def _is_lost(located: Located, there: set[str]) -> bool:
    return not located.is_removed and located.oid not in there


def _answer(located: Located, there: set[str]) -> ObjectStat:
    if located.is_removed:
        return ObjectStat(Status.REMOVED, removal_reason=located.removal_reason or "")
    if located.oid not in there:
        return ObjectStat(Status.MISSING)
    return ObjectStat(Status.PRESENT, located.size, "", located.placed)
