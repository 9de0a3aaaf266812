"""Progress of a copy, on the standard error: a bar if that is a terminal, and a line per problem in any case."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn, TransferSpeedColumn
from towpath.storage.v1.store_service_pb2 import Store

from services.cli.output import cell


class CopyBar:
    """The display of `services.cli.admin.watch_copy.watch`."""

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

    def tell(self, problem: str) -> None:
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
