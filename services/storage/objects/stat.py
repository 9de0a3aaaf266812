"""The status of objects in a repository."""

from collections.abc import Mapping, Sequence
from enum import Enum, auto
from typing import NamedTuple

from services.common.errors import ServiceError
from services.storage.capacity.reservations import refusal_of
from services.storage.context import StorageContext
from services.storage.index.contents import BlobLocation
from services.storage.index.lookups import Located
from services.storage.index.reservations import Admission
from services.storage.intent import Intent
from services.storage.objects.announce import announced


class Status(Enum):
    """The status of an object in a repository."""

    PRESENT = auto()
    MISSING = auto()
    REMOVED = auto()
    DAMAGED = auto()
    OVER_QUOTA = auto()


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
    admission: Admission | None = None
    """The answer of the repository's quota; None if nothing had to be reserved."""


_MISSING, _DAMAGED = ObjectStat(Status.MISSING), ObjectStat(Status.DAMAGED)
_TO_BE_WRITTEN = (Status.MISSING, Status.DAMAGED)


async def stat_objects(
    context: StorageContext,
    repository_id: int,
    keys: Sequence[ObjectKey],
    intent: Intent,
    *,
    seconds: int = 0,
    user_id: int | None = None,
) -> list[ObjectStat]:
    """Return one answer for each key, in order. Raises what BatchStatObjects documents.

    Where the repository or the user has a quota, room for the objects to be written is reserved as `announce` does.
    """
    located = await context.lookups.locate(repository_id, {key.oid for key in keys})
    if intent is Intent.WRITE:
        located = await _settled(context, repository_id, located, user_id=user_id)
    if intent is Intent.READ:
        context.reads.note(repository_id, located)
    found = {entry.oid: _answer(entry) for entry in located}
    answers = [found.get(key.oid, _MISSING) for key in keys]
    if intent is Intent.READ and any(answer.status is Status.PRESENT for answer in answers):
        await context.quota.check(repository_id)
    if intent is Intent.WRITE and (sizes := missing_sizes(keys, answers)):
        await context.quota.check(repository_id)
        admitted = await announce(context, repository_id, sizes, seconds=seconds, user_id=user_id)
        if admitted is not None:
            sizes = {oid: size for oid, size in sizes.items() if admitted[oid].is_admitted}
            answers = [_announced(key, answer, admitted) for key, answer in zip(keys, answers, strict=True)]
        try:
            await context.space.require(sum(sizes.values()))
        except ServiceError:
            if admitted is not None:
                await context.reservations.give_back(repository_id, list(sizes))
            raise
    return answers


async def announce(
    context: StorageContext, repository_id: int, sizes: Mapping[str, int], *, seconds: int, user_id: int | None
) -> dict[str, Admission] | None:
    """Reserve room for objects as `QuotaReservations.announce` does.

    Raises `ResourceExhausted` (QUOTA_EXCEEDED) if none of them fits.
    """
    admitted = await context.reservations.announce(repository_id, sizes, seconds=seconds, user_id=user_id)
    if admitted and not any(admission.is_admitted for admission in admitted.values()):
        raise refusal_of(next(iter(admitted.values())))
    return admitted


async def _settled(
    context: StorageContext, repository_id: int, located: list[Located], *, user_id: int | None
) -> list[Located]:
    """Return as `announced`, without garbage that has no room: what is held again without an upload needs room too."""
    sizes = {entry.oid: entry.size for entry in located if entry.is_collected}
    admitted = await context.reservations.reserve(repository_id, sizes, user_id=user_id)
    if admitted is None:
        return await announced(context, repository_id, located)
    fitting = [entry for entry in located if entry.oid not in admitted or admitted[entry.oid].is_admitted]
    settled = await announced(context, repository_id, fitting)
    # Also of those that the bin has no more, which have to be uploaded.
    await context.reservations.give_back(repository_id, list(admitted))
    return settled


def missing_sizes(keys: Sequence[ObjectKey], answers: Sequence[ObjectStat]) -> dict[str, int]:
    """Return the sizes of the missing and damaged objects, which are to be written, by oid."""
    return {key.oid: key.size for key, answer in zip(keys, answers, strict=True) if answer.status in _TO_BE_WRITTEN}


def _announced(key: ObjectKey, answer: ObjectStat, admitted: Mapping[str, Admission]) -> ObjectStat:
    admission = admitted.get(key.oid)
    if admission is None or answer.status not in _TO_BE_WRITTEN:
        return answer
    status = answer.status if admission.is_admitted else Status.OVER_QUOTA
    return answer._replace(status=status, admission=admission)


def _answer(located: Located) -> ObjectStat:
    """Return the status according to the index alone: lost blobs are found by reads, and by `towpath check`."""
    if located.is_removed:
        return ObjectStat(Status.REMOVED, removal_reason=located.removal_reason or "")
    if not located.locations:
        return _DAMAGED if located.damaged else _MISSING
    return ObjectStat(Status.PRESENT, located.size, "", located.locations)
