"""Polling of a copy until its store lacks nothing, and the display of its progress."""

import asyncio
import sys
from collections.abc import Awaitable, Callable, Iterable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn, TransferSpeedColumn
from towpath.storage.v1.store_service_pb2 import Store

from services.cli.errors import CommandError
from services.cli.output import cell
from services.common.errors import Aborted, DeadlineExceeded, Unavailable

_EVERY_SECONDS = 2.0
# Longer than an upgrade of the services takes, so that an operator who has waited for hours need not start again.
_PATIENCE_SECONDS = 300.0


class CopyBar:
    """A display on the standard error: a bar if that is a terminal, and a line per problem in any case."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._task = progress.add_task("", total=None, left=0)
        self._total: int | None = None
        self._told = ""

    def show(self, store: Store) -> None:
        """Show how many of the bytes that existed at the first call the store has.

        Later uploads do not count, because they are written to the copy directly.
        """
        if self._total is None:
            self._total = store.object_bytes + store.lacking_bytes
            self._progress.reset(self._task, total=self._total, completed=store.object_bytes, description=store.name)
        done = max(0, self._total - store.lacking_bytes)
        self._progress.update(self._task, completed=done, left=store.lacking_count)

    def report(self, problem: str) -> None:
        """Print a problem, unless the previous call had the same problem."""
        if problem and problem != self._told:
            self._progress.console.print(cell(problem), markup=False, highlight=False, soft_wrap=True)
        self._told = problem


@contextmanager
def copy_bar(*, hidden: bool) -> Iterator[CopyBar]:
    """Show a bar if the standard error is a terminal, unless the bar is `hidden`."""
    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TransferSpeedColumn())
    left = TextColumn("{task.fields[left]} objects left")
    console = Console(stderr=True)
    quiet = hidden or not sys.stderr.isatty()
    with Progress(*columns, TimeRemainingColumn(), left, console=console, disable=quiet) as progress:
        yield CopyBar(progress)


async def watch(
    ask: Callable[[], Awaitable[Iterable[Store]]],
    name: str,
    bar: CopyBar,
    *,
    every: float = _EVERY_SECONDS,
    patience: float = _PATIENCE_SECONDS,
) -> Store:
    """Poll the stores every `every` seconds until the store of this name lacks nothing, and return it.

    The bar reports a poll that fails with `Aborted`, `DeadlineExceeded` or `Unavailable`, and the poll is retried.
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
            bar.report(f"no answer: {error.message}")
        else:
            heard = clock()
            store = next((store for store in stores if store.name == name), None)
            if store is None:
                raise CommandError(f"{name} was removed; there is no such store any more")
            bar.show(store)
            bar.report(store.copy.problem)
            if not store.lacking_count:
                return store
            if not store.HasField("copy"):
                raise CommandError(f"the copy was stopped; {name} lacks {store.lacking_count} objects")
        await asyncio.sleep(every)
