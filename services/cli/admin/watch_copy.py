"""A copy of a store that is watched: asked for again and again until the store lacks nothing."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import Protocol

from towpath.storage.v1.store_service_pb2 import Store

from services.cli.errors import CommandError
from services.common.errors import Aborted, DeadlineExceeded, Unavailable

_EVERY_SECONDS = 2.0
# Longer than the services take to be replaced by newer ones; whoever waits for hours need not begin anew.
_PATIENCE_SECONDS = 300.0


class Display(Protocol):
    """Where it is shown how far a copy has come."""

    def show(self, store: Store) -> None:
        """Show what the store has and lacks."""

    def tell(self, problem: str) -> None:
        """Say what stands in the way; empty where nothing does."""


async def watch(
    ask: Callable[[], Awaitable[Iterable[Store]]],
    name: str,
    display: Display,
    *,
    every: float = _EVERY_SECONDS,
    patience: float = _PATIENCE_SECONDS,
) -> Store:
    """Ask for all stores every so many seconds until the one of this name lacks nothing, and return it.

    Where no answer comes, that is told and asked again. Raises `CommandError` where none has come for `patience`
    seconds, where the store is no copy any more although it lacks something, and where it is gone; and what else
    `ask` raises.
    """
    clock = asyncio.get_running_loop().time
    heard = clock()
    while True:
        try:
            stores = await ask()
        except (Aborted, DeadlineExceeded, Unavailable) as error:
            if clock() - heard >= patience:
                raise CommandError(
                    f"no answer for {clock() - heard:.0f} s: {error.message}; the copy goes on by itself when it can"
                ) from error
            display.tell(f"no answer: {error.message}")
        else:
            heard = clock()
            store = _find(stores, name)
            display.show(store)
            display.tell(store.copy.problem)
            if not store.lacking_count:
                return store
            if not store.HasField("copy"):
                raise CommandError(f"the copy was stopped; {name} lacks {store.lacking_count} objects")
        await asyncio.sleep(every)


def _find(stores: Iterable[Store], name: str) -> Store:
    for store in stores:
        if store.name == name:
            return store
    raise CommandError(f"{name} was removed; there is no such store any more")
