"""Results of a run: the file that stores them, and the figures that follow from them."""

import json
import statistics
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Self

from benchmarks.speed.rows import Goal, Row

Cell = dict[str, float]


@dataclass
class Results:
    """The figures of one run; all are by row or load first, and then by server."""

    about: dict[str, Any]
    """The machine, the versions, the settings."""
    missing: dict[str, str] = field(default_factory=dict)
    """The reason for each server that could not be compared."""
    figures: dict[str, dict[str, list[float | None]]] = field(default_factory=dict)
    """A figure for each round, None where a turn failed."""
    refused: dict[str, dict[str, float]] = field(default_factory=dict)
    """The largest part of the requests of a round that a server refused."""
    failures: dict[str, dict[str, str]] = field(default_factory=dict)
    """The errors of failed turns; after a failure a server has no more turns at that load."""
    memory: dict[str, dict[str, dict[str, Cell]]] = field(default_factory=dict)
    """`rest` and `peak`, of each the MiB of `own` and `postgres`."""

    def add(self, row: str, server: str, number: int, figure: float) -> None:
        """Note the figure of a round, the first of which is 0."""
        rounds = self.figures.setdefault(row, {}).setdefault(server, [])
        rounds += [None] * (number + 1 - len(rounds))
        rounds[number] = figure

    def rounds(self, row: str, server: str) -> list[float | None]:
        """Return the figure of each round; none where it was not measured."""
        return self.figures.get(row, {}).get(server, [])

    def median(self, row: str, server: str) -> float | None:
        """Return the median of the rounds."""
        return _median(self.rounds(row, server))

    def times_as_fast(self, row: Row, server: str, than: str, other_row: str | None = None) -> float | None:
        """Return how many times as fast a server is as another: the median of the ratios of the rounds."""
        pairs = zip(self.rounds(row.key, server), self.rounds(other_row or row.key, than), strict=False)
        ratios = (mine / theirs for mine, theirs in pairs if mine and theirs)
        return _median(1 / ratio if row.is_time else ratio for ratio in ratios)

    def reached(self, row: Row, goal: Goal) -> float | None:
        """Return how far a goal is reached; None where that was not measured."""
        return self.times_as_fast(row, goal.of, goal.than, goal.row)

    def write(self, path: Path) -> None:
        """Keep them in a file."""
        unfinished = path.with_name(f"{path.name}.new")
        unfinished.write_text(json.dumps(asdict(self), indent=1, ensure_ascii=False) + "\n")
        unfinished.replace(path)

    @classmethod
    def read(cls, path: Path) -> Self:
        """Return those that `write` kept."""
        return cls(**json.loads(path.read_text()))


def _median(figures: Iterable[float | None]) -> float | None:
    there = [figure for figure in figures if figure is not None]
    return statistics.median(there) if there else None
