"""Polling of a copy until its store lacks nothing."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import Protocol

from towpath.storage.v1.store_service_pb2 import Store

from services.cli.errors import CommandError
from services.common.errors import Aborted, DeadlineExceeded, Unavailable

_EVERY_SECONDS = 2.0
# Longer than an upgrade of the services takes, so that an operator who has waited for hours need not start again.
_PATIENCE_SECONDS = 300.0


class Display(Protocol):
    """A display of the progress of a copy."""

    def show(self, store: Store) -> None:
        """Show what the store has and lacks."""

    def tell(self, problem: str) -> None:
        """Report the problem that delays the copy; it is empty if there is none."""


async def watch(
    ask: Callable[[], Awaitable[Iterable[Store]]],
    name: str,
    display: Display,
    *,
    every: float = _EVERY_SECONDS,
    patience: float = _PATIENCE_SECONDS,
) -> Store:
    """Poll the stores every `every` seconds until the store of this name lacks nothing, and return it.

    The display reports a poll that fails with `Aborted`, `DeadlineExceeded` or `Unavailable`, and the poll is retried.
    Raises `CommandError` if no poll has succeeded for `patience` seconds, if the store is no longer a copy although it
    lacks something, and if the store is gone. Any other error of `ask` is raised unchanged.
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
