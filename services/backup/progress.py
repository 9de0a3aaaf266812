"""The progress of a long command, shown on a terminal's standard error."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn, TransferSpeedColumn


class Bytes:
    """Counts processed bytes."""

    def __init__(self, progress: Progress, total: int, what: str) -> None:
        self._progress = progress
        self._task = progress.add_task(what, total=total)

    def done(self, count: int) -> None:
        """Count further processed bytes."""
        self._progress.advance(self._task, count)


@contextmanager
def progress(what: str, total: int) -> Iterator[Bytes]:
    """Show `what` and its progress through `total` bytes, if the standard error is a terminal."""
    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TransferSpeedColumn())
    console = Console(stderr=True)
    with Progress(*columns, TimeRemainingColumn(), console=console, disable=not sys.stderr.isatty()) as shown:
        yield Bytes(shown, total, what)
