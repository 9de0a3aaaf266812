"""Quotas: room is reserved for uploads, from their announcement or their header until their objects are held.

Postgres decides for all processes together. Where neither the repository nor the user has a quota, that costs no
statement.
"""

import asyncio
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple, Never

from services.common.concurrency.batcher import Batcher
from services.common.concurrency.periodic import run_periodically
from services.common.concurrency.uncancellable import run_to_completion
from services.common.errors import ResourceExhausted, ServiceError
from services.common.observability.logs import get_logger
from services.database.transactions import Database
from services.storage.capacity.limits import LimitCache
from services.storage.errors import quota_exceeded
from services.storage.index import reservations
from services.storage.index.reservations import Admission, Refusal, ReservedUpload, admissions, reserve_statement

RENEW_SECONDS = 15.0
"""Reservations of running uploads are renewed this often."""

LEASE_SECONDS = 60.0
"""A reservation whose process is gone, or whose upload was never announced, lasts this long."""

ANNOUNCED_SECONDS = 600
"""Announcements reserve room for this time at most."""

# Each reservation in a repository adds all of them up.
MAX_ANNOUNCED = 5_000
"""Announcements reserve nothing beyond so many reservations of a repository: the upload itself does."""

_MAX_BATCH = 64
_MAX_BATCH_ANNOUNCEMENTS = 8
# Those of a repository wait for each other in Postgres, each on a connection that other calls need too.
_MAX_IN_FLIGHT = 2

_log = get_logger(__name__)


class _Parties(NamedTuple):
    repository_id: int
    user_id: int | None


class _Term(NamedTuple):
    seconds: float
    most_announced: int | None


class _Announcement(NamedTuple):
    parties: _Parties
    term: _Term
    sizes: Mapping[str, int]


class _Asked(NamedTuple):
    parties: _Parties
    oid: str
    size: int
    id: int


@dataclass
class Room:
    """The room of a running upload."""

    is_needed: bool = True
    """If false at the end of the block, the upload is not complete, and its room is given back."""
    reserve: Callable[[], Awaitable[object]] | None = None
    """The reservation of an upload that had none, because the repository held the object when it began."""

    async def require(self) -> None:
        """Have room, just before the commit. Raises `ResourceExhausted` (QUOTA_EXCEEDED) if there is none any more."""
        if self.reserve is not None:
            await self.reserve()


def refusal_of(admission: Admission) -> ResourceExhausted:
    """Return the error of an object that was not admitted."""
    return quota_exceeded(admission.used, admission.quota, is_of_user=admission.refused_by is Refusal.USER)


class QuotaReservations:
    """Reserves room in the quotas of repositories and users. Its owner runs `run`, and closes it."""

    def __init__(self, database: Database, limits: LimitCache) -> None:
        self._database = database
        self._limits = limits
        self._running: dict[int, ReservedUpload] = {}
        """The running uploads of this process by id; those of one object share a reservation."""
        self._announcements = Batcher(
            self._announce_group, max_batch=_MAX_BATCH_ANNOUNCEMENTS, max_in_flight=_MAX_IN_FLIGHT
        )
        self._batcher = Batcher(
            self._admit_group, max_batch=_MAX_BATCH, max_in_flight=_MAX_IN_FLIGHT, max_wait_seconds=0
        )

    async def announce(
        self, repository_id: int, sizes: Mapping[str, int], *, seconds: float, user_id: int | None
    ) -> dict[str, Admission] | None:
        """Admit announced objects, by oid, in order, while they fit; None without a quota. Raises `Unavailable`.

        Room is reserved for those that a tenth of what is left has room for, with all that the user has announced: for
        `seconds`, at most `ANNOUNCED_SECONDS`, which 0 stands for, unless the upload ends before.
        """
        term = _Term(min(seconds or ANNOUNCED_SECONDS, ANNOUNCED_SECONDS), MAX_ANNOUNCED)
        return await self._announced(_Parties(repository_id, user_id), term, sizes)

    async def reserve(
        self, repository_id: int, sizes: Mapping[str, int], *, user_id: int | None
    ) -> dict[str, Admission] | None:
        """Reserve room for objects that the caller is about to add without an upload; else as `announce`."""
        return await self._announced(_Parties(repository_id, user_id), _Term(LEASE_SECONDS, None), sizes)

    @asynccontextmanager
    async def admitted(
        self, repository_id: int, oid: str, size: int, *, user_id: int | None, ends_when_cancelled: bool = True
    ) -> AsyncIterator[Room]:
        """Keep room for an upload while the block runs; a block that fails, or needs it no more, gives it back.

        If a block goes on elsewhere when it is cancelled, `ends_when_cancelled` is false: its commit ends the
        reservation. Raises `ResourceExhausted` (QUOTA_EXCEEDED) if no room is reserved and the upload does not fit.
        """
        parties = _Parties(repository_id, user_id)
        if not self._are_limited(parties):
            yield Room()
            return
        id_ = secrets.randbits(63)

        async def reserve() -> bool:
            admission = await self._batcher.submit(_Asked(parties, oid, size, id_))
            if not admission.is_admitted:
                raise refusal_of(admission)
            return admission.is_reserved

        try:
            is_reserved = await run_to_completion(reserve())
        except asyncio.CancelledError:
            await run_to_completion(self.give_back(repository_id, [oid], upload_id=id_))
            raise
        if is_reserved:
            self._running[id_] = ReservedUpload(repository_id, oid, size, user_id, id_)
        # A renewal would reserve for an object that has gone, whether it fits or not.
        room = Room() if is_reserved else Room(reserve=reserve)
        try:
            yield room
        except BaseException as error:
            self._running.pop(id_, None)
            if ends_when_cancelled or not isinstance(error, asyncio.CancelledError):
                await run_to_completion(self.give_back(repository_id, [oid], upload_id=id_))
            raise
        self._running.pop(id_, None)
        if not room.is_needed:
            await self.give_back(repository_id, [oid], upload_id=id_)

    async def give_back(self, repository_id: int, oids: Sequence[str], *, upload_id: int | None = None) -> None:
        """End reservations before their time, except for those that uploads but this one need.

        If the database does not answer, they end by themselves.
        """
        work = partial(reservations.end, repository_id=repository_id, oids=oids, upload_id=upload_id)
        try:
            await self._database.run(work, patient=False)
        except ServiceError as error:
            _log.warning("room in a quota is not given back before its time", message=error.message)

    async def run(self) -> Never:
        """Renew the reservations of running uploads, forever."""
        await run_periodically(self._renew, RENEW_SECONDS, trouble="room in quotas is not kept for running uploads")

    async def close(self) -> None:
        """Cancel the requests that are in flight or waiting."""
        await self._announcements.close()
        await self._batcher.close()

    async def _renew(self) -> None:
        if reserved := list(self._running.values()):
            await self._database.run(partial(reservations.renew, reserved=reserved, seconds=LEASE_SECONDS))

    async def _announce_group(self, group: Sequence[_Announcement]) -> list[dict[str, Admission]]:
        sizes_of: dict[tuple[_Parties, _Term], dict[str, int]] = {}
        for parties, term, sizes in group:
            asked = sizes_of.setdefault((parties, term), {})
            asked.update({oid: max(size, asked.get(oid, 0)) for oid, size in sizes.items()})
        found = {
            (parties, term): await self._reserve(parties, sizes, term) for (parties, term), sizes in sizes_of.items()
        }
        return [{oid: found[parties, term][oid] for oid in sizes} for parties, term, sizes in group]

    async def _admit_group(self, group: Sequence[_Asked]) -> list[Admission]:
        by_parties: dict[_Parties, list[_Asked]] = {}
        for asked in group:
            by_parties.setdefault(asked.parties, []).append(asked)
        found: dict[tuple[_Parties, str], Admission] = {}
        for parties, uploads in by_parties.items():
            # Sorted, so that the largest size of an object counts.
            sizes = {asked.oid: asked.size for asked in sorted(uploads, key=lambda asked: asked.size)}
            admitted = await self._reserve(parties, sizes, _Term(LEASE_SECONDS, None), uploads)
            found |= {(parties, oid): admission for oid, admission in admitted.items()}
        return [found[asked.parties, asked.oid] for asked in group]

    def _are_limited(self, parties: _Parties) -> bool:
        is_repository_limited = self._limits.quota_of(parties.repository_id) is not None
        return is_repository_limited or self._limits.user_quota_of(parties.user_id) is not None

    async def _announced(self, parties: _Parties, term: _Term, sizes: Mapping[str, int]) -> dict[str, Admission] | None:
        if not sizes or not self._are_limited(parties):
            return None
        return await self._announcements.submit(_Announcement(parties, term, sizes))

    async def _reserve(
        self, parties: _Parties, sizes: dict[str, int], term: _Term, uploads: Sequence[_Asked] = ()
    ) -> dict[str, Admission]:
        statement = reserve_statement(
            parties.repository_id,
            self._limits.quota_of(parties.repository_id),
            sizes,
            seconds=term.seconds,
            user_id=parties.user_id,
            user_quota=self._limits.user_quota_of(parties.user_id),
            uploads=[(asked.oid, asked.id) for asked in uploads],
            most_announced=term.most_announced,
        )
        return admissions(sizes, await self._database.fetch(statement))
