"""How far a copy has come: a bar on a terminal's standard error. What stands in the way: a line there in any case."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn, TransferSpeedColumn
from towpath.storage.v1.store_service_pb2 import Store

from services.cli.output import cell


class CopyBar:
    """What `services.cli.admin.watch_copy.watch` shows on."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._task = progress.add_task("", total=None, left=0)
        self._total: int | None = None
        self._told = ""

    def show(self, store: Store) -> None:
        """Show how many bytes of those at the first call are there; what is written meanwhile goes there by itself."""
        if self._total is None:
            self._total = store.object_bytes + store.lacking_bytes
            self._progress.reset(self._task, total=self._total, completed=store.object_bytes, description=store.name)
        done = max(0, self._total - store.lacking_bytes)
        self._progress.update(self._task, completed=done, left=store.lacking_count)

    def tell(self, problem: str) -> None:
        """Print a problem once, as long as it is the same."""
        if problem and problem != self._told:
            self._progress.console.print(cell(problem), markup=False, highlight=False, soft_wrap=True)
        self._told = problem


@contextmanager
def copy_bar(*, hidden: bool) -> Iterator[CopyBar]:
    """Show a bar where the standard error is a terminal, unless it is `hidden`."""
    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TransferSpeedColumn())
    left = TextColumn("{task.fields[left]} objects left")
    console = Console(stderr=True)
    quiet = hidden or not sys.stderr.isatty()
    with Progress(*columns, TimeRemainingColumn(), left, console=console, disable=quiet) as progress:
        yield CopyBar(progress)
