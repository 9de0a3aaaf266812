"""Options of the benchmark command."""

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.speed.rows import ROWS
from benchmarks.speed.scale import FULL, QUICK, Scale
from benchmarks.speed.servers import PEERS, RELAYED, REPEATED, TOWPATH

RESULTS = Path(__file__).parents[1] / "speed.json"


@dataclass(frozen=True)
class Options:
    """The scope of a measurement, and the place of its results."""

    scale: Scale
    rounds: int
    rows: frozenset[str]
    servers: tuple[str, ...]
    memory_of: tuple[str, ...]
    """Of which of them memory is read, in a round of its own."""
    keep: Path | None
    """The folder in which the peers are installed, so that the next run finds them there."""
    out: Path | None
    is_whole: bool
    """True if nothing was left out, so that the page can be made from the results."""


def parse(arguments: Sequence[str] | None = None) -> Options:
    """Return what the command line says. Ends the process where it says what does not exist."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.speed", description=__doc__)
    parser.add_argument(
        "--quick", action="store_true", help="one round of little: does it work? The figures say nothing"
    )
    parser.add_argument("--rounds", type=_positive, help="how often everything is measured (default: 5)")
    parser.add_argument("--only", nargs="+", metavar="ROW", choices=ROWS, help=f"some rows: {', '.join(ROWS)}")
    parser.add_argument("--peers", nargs="*", metavar="PEER", choices=PEERS, help=f"some peers: {', '.join(PEERS)}")
    parser.add_argument(
        "--memory",
        choices=("all", "own", "none"),
        default="all",
        help="whose memory is read; Towpath's own: a third of the time",
    )
    parser.add_argument("--keep", type=Path, metavar="DIR", help="install peers here, where the next run finds them")
    parser.add_argument(
        "--out", type=Path, metavar="FILE", help=f"write the figures here (a whole run: {RESULTS.name})"
    )
    told = parser.parse_args(arguments)
    is_whole = not (told.quick or told.only or told.peers is not None)
    own = (TOWPATH, RELAYED)
    peers = PEERS if told.peers is None else tuple(told.peers)
    return Options(
        scale=QUICK if told.quick else FULL,
        rounds=told.rounds or (1 if told.quick else 5),
        rows=frozenset(told.only or ROWS),
        servers=(*own, REPEATED, *peers),
        memory_of={"all": (*own, *peers), "own": own, "none": ()}[told.memory],
        keep=told.keep,
        out=told.out or (RESULTS if is_whole else None),
        is_whole=is_whole,
    )


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise ValueError(text)
    return number
