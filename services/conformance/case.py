"""One case: a statement about the interface, and the function that tries it."""

import inspect
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from services.conformance.outcome import Level
from services.conformance.site import Site

Run = Callable[[Site], Awaitable[None]]


@dataclass(frozen=True)
class Case:
    """A statement about one row of the interface.

    `run` returns if it holds. It raises `Finding` if not, `NotApplicable` if that cannot be said of this server, and
    `Blocked` if a step before it fails.
    """

    id: str
    title: str
    section: str
    """The heading of docs/protocol.md."""
    row: str
    """The row of the section's table."""
    level: Level
    run: Run


def case(section: str, row: str, level: Level = Level.MUST) -> Callable[[Run], Case]:
    """Make a function a case. Its docstring is the title, and its module and name are the id."""

    def made(run: Run) -> Case:
        name = f"{run.__module__.rpartition('.')[2]}/{getattr(run, '__name__', '')}"
        title = (inspect.getdoc(run) or "").split("\n", 1)[0].rstrip(".")
        return Case(name, title, section, row, level, run)

    return made
