"""Test of steady memory under load: `python -m benchmarks.speed.soak`, for an hour.

The command puts loads of each kind on Towpath in turn, again and again, with new objects and new locks each time, and
reads the memory all the time. The result compares the end of the hour with the time after the first sixth, because
caches and pools fill in the first sixth.
"""

import argparse
import json
import os
import shutil
import signal
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from threading import Event, Thread
from typing import Any, NamedTuple

from benchmarks.speed import machine, processes, wrk
from benchmarks.speed.loads import locks, requests, transfers
from benchmarks.speed.material import Material
from benchmarks.speed.rows import ROWS
from benchmarks.speed.scale import FULL
from benchmarks.speed.servers import TOWPATH, servers
from benchmarks.speed.turn import Turn

SOAK = Path(__file__).parents[1] / "speed-soak.json"
_MINUTES = 60.0
_PARTS = 6
_SAMPLE_SECONDS = 1.0
_ROLES = ("services.facade", "services.storage", "services.locks", processes.POSTGRES)
_LOCKS_A_LOOP = 10_000
# All that a loop uploads is new and stays, so it is little of each size.
_SCALE = replace(FULL, seconds=5, medium=4 * 2**20, held=1000, puts=500)


class Sample(NamedTuple):
    """The MiB of each part of Towpath, such as `services.facade` or `postgres`, some seconds after the start."""

    seconds: float
    roles: Mapping[str, float]

    @property
    def own(self) -> float:
        """The MiB of all but Postgres."""
        return sum(mebibytes for role, mebibytes in self.roles.items() if role != processes.POSTGRES)


@contextmanager
def _sampled(pid: int) -> Iterator[list[Sample]]:
    """Yield what becomes, during the block, the samples of a server's memory."""
    samples: list[Sample] = []
    began, over = time.monotonic(), Event()

    def watch() -> None:
        while not over.wait(_SAMPLE_SECONDS):
            samples.append(Sample(time.monotonic() - began, processes.memory_by_role(pid)))

    thread = Thread(target=watch)
    thread.start()
    try:
        yield samples
    finally:
        over.set()
        thread.join()


def _loop(held: Turn, new: Turn, number: int) -> None:
    """Put each kind of load on the server once: ask for what it holds, and bring what it does not."""
    requests.batches(held)
    requests.get_small(held)
    requests.put_small(new)
    transfers.get_large(held)
    transfers.put_medium(new)
    for request in (locks.listing(held.site), locks.verification(held.site)):
        wrk.in_turn(held.site, [request], seconds=held.scale.seconds)
    for request in (locks.creation(held.site), locks.by_path(held.site)):
        wrk.numbered(held.site, request, seconds=held.scale.seconds, first=number * _LOCKS_A_LOOP)


def parts(samples: Sequence[Sample], *, number: int = _PARTS) -> list[dict[str, Any]]:
    """Return for each part of the time, all equally long, the medians of the memory, and the most of Towpath's own."""
    end = samples[-1].seconds
    told = []
    for part in range(number):
        some = [each for each in samples if part * end <= each.seconds * number <= (part + 1) * end]
        told.append(
            {
                "minutes": end * (part + 1) / number / 60,
                "own": statistics.median(each.own for each in some),
                "own_most": max(each.own for each in some),
                "roles": {role: statistics.median(each.roles.get(role, 0.0) for each in some) for role in _ROLES},
            }
        )
    return told


def table(told: Mapping[str, Any]) -> str:
    """Return a table of what `main` wrote, in Markdown."""
    names = [role.removeprefix("services.") for role in _ROLES]
    lines = [f"| until minute | all of Towpath | most | {' | '.join(names)} |", "|---:" * (3 + len(names)) + "|"]
    for part in told["parts"]:
        figures = (part["minutes"], part["own"], part["own_most"], *(part["roles"][role] for role in _ROLES))
        lines.append(f"| {' | '.join(f'{figure:.0f}' for figure in figures)} |")
    first, last = told["parts"][1]["own"], told["parts"][-1]["own"]
    return "\n".join([*lines, "", f"The last part beside the second: {last / first:.2f}×."])


def _run(minutes: float, folder: Path) -> dict[str, Any]:
    [server] = servers(folder, (TOWPATH,))
    data = folder / "var"
    with server.running(data) as site:

        def turn(name: str) -> Turn:
            return Turn(server, site, data, _SCALE, Material(folder / name, _SCALE), rows=ROWS)

        held = turn("held")
        requests.prepare(held)
        transfers.prepare_large(held)
        end, number = time.monotonic() + minutes * 60, 0
        with _sampled(site.pid) as samples:
            while time.monotonic() < end:
                (folder / "new").mkdir()
                _loop(held, turn("new"), number)
                shutil.rmtree(folder / "new")
                number += 1
                sys.stderr.write(f"loop {number}: {samples[-1].seconds:.0f} s, {samples[-1].own:.0f} MiB\n")
    return {"about": machine.about(folder), "loops": number, "parts": parts(samples)}


def main() -> None:
    """Measure, print and write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--minutes", type=float, default=_MINUTES, help="how long (default: %(default)g; less is not written down)"
    )
    minutes = parser.parse_args().minutes
    # So that the server is stopped, and the folder removed, as at Ctrl-C.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    with tempfile.TemporaryDirectory(prefix="towpath-benchmark-") as folder:
        told = _run(minutes, Path(folder).resolve())
    print(table(told))
    if minutes >= _MINUTES:
        SOAK.write_text(json.dumps(told, indent=1) + os.linesep)


if __name__ == "__main__":
    main()
