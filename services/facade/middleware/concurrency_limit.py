"""Limit on concurrent requests: requests above it get 429, because clients do not retry a 503."""

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial

from starlette.types import ASGIApp, Receive, Scope, Send

from services.common.errors import Reason, ResourceExhausted
from services.facade import metrics
from services.facade.errors import ErrorRenderer
from services.facade.web.forwarded_headers import Networks, client_network, client_of
from services.facade.web.http_settings import HttpSettings

# Health probes must be answered above all while the facade is overloaded.
_UNLIMITED = ("/healthz", "/readyz")
_RETRY_SECONDS = "1"
VERIFY_LOCKS = "/locks/verify"
"""The end of the addresses from whose 429 git-lfs concludes that there is no locking (trap-44)."""
_LOOK_SECONDS = 0.25
# So long a request waits for one of the slots of `held_slot`.
_HELD_WAIT_SECONDS = 2.0


class Slots:
    """The free slots, and the number of slots of each address and user; `what` is the plural of what takes them.

    An address or a user has at most `share`. All callers without credentials have at most `strangers` together, and
    those of one address `share_of_strangers`.
    """

    def __init__(self, what: str, limit: int, share: int, *, strangers: int = 0, share_of_strangers: int = 0) -> None:
        self.what = what
        self.free = limit
        self.share = share
        self.strangers = strangers
        self.share_of_strangers = share_of_strangers
        self.max_waiting = limit
        self.waiting = 0
        self.in_flight: Counter[str] = Counter()


def watches_of(settings: HttpSettings) -> Slots:
    """Return the slots of the clients that watch the events of locks."""
    most = settings.lock_watches
    strangers = max(1, most // 10)
    return Slots("watches", most, max(1, most // 4), strangers=strangers, share_of_strangers=max(1, strangers // 4))


class Slot:
    """The slot of one request among the requests that are served at once.

    `take` and the methods that count raise `ResourceExhausted` (RATE_LIMITED) where the limit is reached;
    `wait_for` raises it only where the limit stays reached until `wait_seconds` from now, or too many requests wait.
    """

    def __init__(self, slots: Slots, wait_seconds: float = 0.0) -> None:
        self._slots = slots
        self._until = time.monotonic() + wait_seconds
        self._holders: list[str] = []
        self._is_taken = False

    def take(self) -> None:
        """Take the slot."""
        if self._slots.free <= 0:
            raise _refusal(f"too many {self._slots.what} are being served")
        self._slots.free -= 1
        self._is_taken = True

    def count_address(self, network: str) -> None:
        """Count the request as one of this address until it ends."""
        self._count((f"address {network}", self._slots.share, f"{self._slots.what} from your address"))

    def count_user(self, name: str) -> None:
        """Count the request as one of this user until it ends."""
        self._count((f"user {name}", self._slots.share, f"of your {self._slots.what}"))

    def count_stranger(self, network: str | None) -> None:
        """Count the request as one without credentials, and as one of this address if it is known, until it ends."""
        slots = self._slots
        address = (f"stranger {network}", slots.share_of_strangers, f"{slots.what} from your address")
        all_ = ("strangers", slots.strangers, f"{slots.what} without credentials")
        self._count(*([address] if network else []), all_)

    def _count(self, *holders: tuple[str, int, str]) -> None:
        """Count the request for all holders, each with its share and with what it would have too many of, or none."""
        for holder, share, what in holders:
            if self._slots.in_flight[holder] >= share:
                raise _refusal(f"too many {what} are being served")
        for holder, _, _ in holders:
            self._slots.in_flight[holder] += 1
            self._holders.append(holder)

    async def wait_for(self, take: Callable[[], None]) -> None:
        """Call `take`, one of the methods above, until the limit allows it; the request waits without its slot."""
        try:
            take()
        except ResourceExhausted:
            if self._slots.waiting >= self._slots.max_waiting or time.monotonic() >= self._until:
                raise
        else:
            return
        was_taken = self._is_taken
        self._give_back()
        self._slots.waiting += 1
        try:
            await self._retried(take)
        finally:
            self._slots.waiting -= 1
        if was_taken:
            await self.wait_for(self.take)

    async def _retried(self, take: Callable[[], None]) -> None:
        while True:
            await asyncio.sleep(_LOOK_SECONDS)
            try:
                return take()
            except ResourceExhausted:
                if time.monotonic() >= self._until:
                    raise

    @asynccontextmanager
    async def released(self) -> AsyncIterator[None]:
        """Give the slot back during the block, because waiting there costs nothing; then take a slot again."""
        self._give_back()
        yield
        await self.wait_for(self.take)

    def end(self) -> None:
        """Give the slot back, and stop counting the request for its address and user."""
        self._give_back()
        for holder in self._holders:
            self._slots.in_flight[holder] -= 1
            if not self._slots.in_flight[holder]:
                del self._slots.in_flight[holder]
        self._holders.clear()

    def _give_back(self) -> None:
        if self._is_taken:
            self._slots.free += 1
            self._is_taken = False


def release_slot(scope: Scope) -> None:
    """Give back the slot of a request that has its answer, although it has not ended."""
    slot: Slot | None = scope.get("state", {}).get("slot")
    if slot is not None:
        slot.end()


@asynccontextmanager
async def held_slot(slots: Slots, *, network: str | None, user: str) -> AsyncIterator[None]:
    """Hold one of these slots during the block, beside the request's own; without a user, as a stranger.

    Raises `ResourceExhausted` (RATE_LIMITED) where there is none within two seconds.
    """
    slot = Slot(slots, _HELD_WAIT_SECONDS)
    try:
        await slot.wait_for(partial(slot.count_user, user) if user else partial(slot.count_stranger, network))
        await slot.wait_for(slot.take)
        yield
    finally:
        slot.end()


def move_to_watches(scope: Scope, slots: Slots, *, network: str | None, user: str) -> Slot:
    """Take one of the slots of watches for a request in place of the slot that it has; the caller ends it.

    From then on, the request is counted as a watch, without a user as one of a stranger.

    Raises `ResourceExhausted` (RATE_LIMITED) where their limit, or the share of the address, the user or the strangers,
    is reached.
    """
    slot = Slot(slots)
    try:
        slot.take()
        if user and network:
            slot.count_address(network)
        if user:
            slot.count_user(user)
        else:
            slot.count_stranger(network)
    except ResourceExhausted:
        slot.end()
        raise
    release_slot(scope)
    scope["state"]["is_watch"] = True
    metrics.IN_FLIGHT.dec()
    metrics.WATCHES.inc()
    return slot


def slot_of(scope: Scope) -> Slot:
    """Return the slot that `ConcurrencyLimit` has given to a request."""
    slot: Slot = scope["state"]["slot"]
    return slot


class ConcurrencyLimit:
    """Answers 429 while the limit on all requests, or the share of one address or user, is reached.

    A request to verify locks waits for its slot, for up to `verify_wait_seconds`. Loopback addresses and the addresses
    of trusted proxies are not counted, because they stand for any client.
    """

    def __init__(self, app: ASGIApp, settings: HttpSettings, *, trusted: Networks, errors: ErrorRenderer) -> None:
        self._app = app
        self._verify_wait_seconds = settings.verify_wait_seconds
        self._slots = Slots("requests", settings.requests_in_flight, settings.share_of_requests)
        self._trusted = trusted
        self._errors = errors

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request, or refuse it before any work is done for it."""
        if scope["path"] in _UNLIMITED:
            await self._app(scope, receive, send)
            return
        wait_seconds = self._verify_wait_seconds if scope["path"].endswith(VERIFY_LOCKS) else 0.0
        slot = scope["state"]["slot"] = Slot(self._slots, wait_seconds)
        try:
            if network := client_network(client_of(scope).address, self._trusted):
                await slot.wait_for(partial(slot.count_address, network))
            await slot.wait_for(slot.take)
        except ResourceExhausted as error:
            slot.end()
            await self._errors.render(error, scope)(scope, receive, send)
            return
        try:
            await self._app(scope, receive, send)
        finally:
            slot.end()


def _refusal(message: str) -> ResourceExhausted:
    return ResourceExhausted(Reason.RATE_LIMITED, message, retry_after=_RETRY_SECONDS)
