"""Objects for callers who may read them: kept ones from the disk, others fetched once however many ask."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Self

from services.cache import metrics
from services.cache.fetch import Fetch, NoRoom, write
from services.cache.readers import KeptReader, PassingReader, Reader, TailReader
from services.cache.store import ObjectStore
from services.cache.tokens import Grant
from services.cache.upstream import Upstream
from services.common.concurrency.circuit_breaker import CircuitBreaker
from services.common.errors import DataLoss, Reason, ServiceError, Unavailable
from services.common.files import OwnedDescriptor
from services.common.lifecycle import cancel_and_wait
from services.common.observability.logs import get_logger

# What is kept and being read makes room within seconds, or a client is slow.
_ROOM_SECONDS = 10.0
_FULL_DISK_SECONDS = 10.0

_log = get_logger(__name__)


class Objects:
    """Opens objects for reading. Its owner is `open`, which ends the fetches."""

    def __init__(self, store: ObjectStore, upstream: Upstream, max_fetches: int) -> None:
        self._store = store
        self._upstream = upstream
        self._slots = asyncio.Semaphore(max_fetches)
        self._fetches: dict[tuple[str, int], Fetch] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._full_disk = CircuitBreaker(_FULL_DISK_SECONDS)

    @classmethod
    @asynccontextmanager
    async def running(cls, store: ObjectStore, upstream: Upstream, max_fetches: int) -> AsyncIterator[Self]:
        """Yield the objects; the fetches that still run are ended afterwards."""
        objects = cls(store, upstream, max_fetches)
        try:
            yield objects
        finally:
            await cancel_and_wait(*objects._tasks)

    def has(self, oid: str, size: int) -> bool:
        """Return whether an object can be read without the upstream; if so, its download is about to follow."""
        return self._store.has(oid, size)

    async def open(self, grant: Grant) -> tuple[Reader, str]:
        """Return a reader of the object, which the caller closes, and the source: kept, joined, fetched or passed.

        The first bytes can be read, or there are none. Raises the errors of `source.read_object`, and `Unavailable`
        where the object is not kept and the grant has no action of the upstream.
        """
        while True:
            file = OwnedDescriptor()
            if (entry := await self._store.open_object(grant.oid, grant.size, file)) is not None:
                metrics.KEPT.inc()
                return KeptReader(self._store, entry, file), "kept"
            fetch = self._fetches.get((grant.oid, grant.size))
            is_own = fetch is None
            if fetch is None:
                if not grant.url:
                    raise Unavailable(Reason.UNAVAILABLE, "the cache has lost the object; ask by a new batch request")
                if not self._store.fits(grant.size) or self._full_disk.is_open:
                    return self._passing(grant)
                fetch = self._begin(grant)
            if (error := await _begun(fetch)) is None:
                (metrics.FETCHED if is_own else metrics.JOINED).inc()
                return TailReader(fetch), "fetched" if is_own else "joined"
            if isinstance(error, NoRoom) and grant.url:
                return self._passing(grant)
            # Where the action of another caller was refused, this one's may be good.
            if is_own or not grant.url or isinstance(error, DataLoss | Unavailable):
                raise error

    def _passing(self, grant: Grant) -> tuple[Reader, str]:
        metrics.PASSED.inc()
        return PassingReader(self._upstream, grant), "passed"

    def _begin(self, grant: Grant) -> Fetch:
        fetch = self._fetches[(grant.oid, grant.size)] = Fetch(grant, self._store)
        task = asyncio.create_task(self._run(fetch))
        fetch.give_up = task.cancel
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return fetch

    async def _run(self, fetch: Fetch) -> None:
        grant = fetch.grant
        try:
            async with self._slots:
                await self._write(fetch)
        except asyncio.CancelledError:
            fetch.fail(Unavailable(Reason.UNAVAILABLE, "the fetch of the object was given up"))
            raise
        except ServiceError as error:
            _log.warning("an object cannot be fetched", oid=grant.oid, reason=error.reason, message=error.message)
            if isinstance(error, DataLoss):
                metrics.DAMAGED.labels("upstream").inc()
            fetch.fail(error)
        except Exception:  # a defect fails the readers instead of leaving them to wait
            _log.exception("an object cannot be fetched", oid=grant.oid)
            fetch.fail(ServiceError(Reason.INTERNAL, "internal error"))
        finally:
            del self._fetches[(grant.oid, grant.size)]
            await fetch.end()

    async def _write(self, fetch: Fetch) -> None:
        if not await self._store.reserve(fetch.grant.size, _ROOM_SECONDS):
            raise NoRoom("all that is kept is being read")
        fetch.is_reserved = True
        metrics.FETCHES.inc()
        try:
            await write(fetch, self._upstream, self._store)
        except NoRoom:
            self._full_disk.trip()
            raise
        finally:
            metrics.FETCHES.dec()


async def _begun(fetch: Fetch) -> ServiceError | None:
    """Join a fetch, and return None once it has bytes to read; the error where it has failed, and was left again."""
    fetch.join()
    try:
        await fetch.wait_for(0)
    except ServiceError as error:
        await fetch.leave()
        return error
    except BaseException:
        await fetch.leave()
        raise
    return None
