"""Cache of the keys and endpoints of issuers: read by one request at a time, and kept through an outage for a while."""

import asyncio
import math
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field

from services.common.errors import Reason, ResourceExhausted, Unavailable
from services.common.lifecycle import cancel_and_wait
from services.common.observability.logs import get_logger
from services.locks import metrics
from services.locks.access.third_parties import NOBODY, Asker, check_may_ask
from services.locks.issuers.discovery import Endpoints, IssuerUnavailableError, Metadata
from services.locks.issuers.keys import SigningKey, find_key
from services.locks.issuers.refusal import refused

REFRESH_SECONDS = 600.0
"""The age from which a key set is read again when it is used; until the answer, the earlier keys count."""
REFETCH_SECONDS = 60.0
"""The time between two readings because of unknown keys, so that made-up tokens cannot make requests to the issuer."""
ADDRESS_REFETCH_SECONDS = 2 * REFETCH_SECONDS
"""The time between two of them because of one address, so that it leaves every other one to the rest."""
_PAUSE_SECONDS = 10.0
# More than readings because of unknown keys in the time for which one of an address counts.
_MAX_ADDRESSES = 100

_NOTHING = Metadata((), Endpoints("", ""))

_log = get_logger(__name__)


@dataclass
class _KeySet:
    """The metadata of one issuer with the times of its requests (`time.monotonic`), and the request in flight.

    `unknown_of` has the times of readings because of unknown keys by address, the latest last.
    """

    metadata: Metadata = _NOTHING
    read_at: float = -math.inf
    failed_at: float = -math.inf
    unknown_at: float = -math.inf
    unknown_of: OrderedDict[str, float] = field(default_factory=OrderedDict)
    reading: asyncio.Task[Metadata] | None = None


class KeySets:
    """The keys and endpoints of all issuers. Its owner closes it.

    `read` reads those of one issuer; they are kept for at most `stale_seconds` after the last reading that succeeded.
    """

    def __init__(self, read: Callable[[str], Awaitable[Metadata]], *, stale_seconds: float) -> None:
        self._read = read
        self._stale_seconds = stale_seconds
        self._sets: dict[str, _KeySet] = {}

    async def close(self) -> None:
        """End all requests."""
        with suppress(IssuerUnavailableError):
            await cancel_and_wait(*(task for found in self._sets.values() if (task := found.reading) is not None))

    async def find(self, issuer_url: str, key_id: str, algorithm: str, asker: Asker) -> SigningKey:
        """Return an issuer's key of that id, or its only key for the algorithm where the token names no key.

        A key that is not known makes a request to the issuer, at most once a minute, and at most once in two minutes
        from one address. Raises `Unauthenticated` (BAD_CREDENTIALS) if the issuer has no such key, `ResourceExhausted`
        (RATE_LIMITED) if it was asked a moment ago or is not asked for an address that is over its limit, and
        `Unavailable` if it does not answer; both with the metadata `retry_after` and `undecided`.
        """
        found = self._sets.setdefault(issuer_url, _KeySet())
        if (key := find_key((await self._current(issuer_url, found, asker)).keys, key_id, algorithm)) is not None:
            return key
        # A reading in flight may have begun before the issuer had the key: it can find the key, and refuse no token.
        in_flight = await self._fetch(issuer_url, found) if found.reading is not None else _NOTHING
        if (key := find_key(in_flight.keys, key_id, algorithm)) is not None:
            return key
        if found.reading is None:
            self._take_unknown(issuer_url, found, asker)
        if (key := find_key((await self._fetch(issuer_url, found)).keys, key_id, algorithm)) is not None:
            return key
        raise refused("kid: the key of the JSON Web Token is not among those of its issuer")

    def _take_unknown(self, issuer_url: str, found: _KeySet, asker: Asker) -> None:
        """Take a reading because of an unknown key. Raises `ResourceExhausted` (RATE_LIMITED) if there is none."""
        check_may_ask(asker)
        now = time.monotonic()
        own_at = found.unknown_of.get(asker.address, -math.inf)
        seconds = max(found.unknown_at + REFETCH_SECONDS, own_at + ADDRESS_REFETCH_SECONDS) - now
        if seconds > 0:
            message = f"kid: the key of the JSON Web Token is not known, and {issuer_url} was asked a moment ago"
            raise ResourceExhausted(Reason.RATE_LIMITED, message, retry_after=str(math.ceil(seconds)), undecided="true")
        found.unknown_at = now
        if asker.address:
            found.unknown_of[asker.address] = now
            found.unknown_of.move_to_end(asker.address)
            if len(found.unknown_of) > _MAX_ADDRESSES:
                found.unknown_of.popitem(last=False)

    async def endpoints(self, issuer_url: str) -> Endpoints:
        """Return an issuer's endpoints. Raises `Unavailable` if it does not answer, with the metadata `retry_after`."""
        return (await self._current(issuer_url, self._sets.setdefault(issuer_url, _KeySet()), NOBODY)).endpoints

    async def _current(self, issuer_url: str, found: _KeySet, asker: Asker) -> Metadata:
        age = time.monotonic() - found.read_at
        if age < REFRESH_SECONDS:
            return found.metadata
        if age < self._stale_seconds:
            if not asker.is_limited and time.monotonic() >= found.failed_at + _PAUSE_SECONDS:
                self._start(issuer_url, found)
            return found.metadata
        check_may_ask(asker)
        return await self._fetch(issuer_url, found)

    async def _fetch(self, issuer_url: str, found: _KeySet) -> Metadata:
        """Return what the issuer publishes now. Raises `Unavailable`, also for a while after a failure."""
        if found.reading is None and (seconds := found.failed_at + _PAUSE_SECONDS - time.monotonic()) > 0:
            raise _unavailable(issuer_url, seconds)
        try:
            return await asyncio.shield(self._start(issuer_url, found))
        except IssuerUnavailableError as error:
            raise _unavailable(issuer_url, _PAUSE_SECONDS) from error

    def _start(self, issuer_url: str, found: _KeySet) -> asyncio.Task[Metadata]:
        """Return the request in flight; begin one if there is none."""
        if found.reading is None:
            found.reading = asyncio.create_task(self._refresh(issuer_url, found))
            # Nobody may be waiting for it any more; `_refresh` has logged the failure.
            found.reading.add_done_callback(lambda task: task.cancelled() or task.exception())
        return found.reading

    async def _refresh(self, issuer_url: str, found: _KeySet) -> Metadata:
        asked_at = time.monotonic()
        try:
            found.metadata = await self._read(issuer_url)
        except IssuerUnavailableError as error:
            found.failed_at = time.monotonic()
            metrics.KEY_SET_READINGS.labels("failed").inc()
            _log.warning("the keys of an issuer cannot be read", issuer=issuer_url, problem=str(error))
            raise
        finally:
            found.reading = None
        found.read_at = asked_at
        metrics.KEY_SET_READINGS.labels("read").inc()
        return found.metadata


def _unavailable(issuer_url: str, seconds: float) -> Unavailable:
    message = f"the keys of {issuer_url} cannot be read for the moment"
    return Unavailable(Reason.UNAVAILABLE, message, retry_after=str(math.ceil(seconds)), undecided="true")
