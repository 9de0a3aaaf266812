"""The rounds: in each, every load is put on every server in turn.

A server runs only while it is its turn, so nothing that one leaves to do burdens another. A turn begins with the same
data as that server's last one, with all that was written before on the disk, and with the files that it is to read in
memory. The order changes from round to round.
"""

import os
import shutil
import subprocess
import sys
import time
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from benchmarks.speed import processes
from benchmarks.speed.client import Site
from benchmarks.speed.loads import LOADS, START, Load
from benchmarks.speed.material import Material
from benchmarks.speed.options import Options
from benchmarks.speed.results import Results
from benchmarks.speed.servers import Server
from benchmarks.speed.turn import Turn

_REST_SECONDS = 2.0


class Rounds:
    """All turns of a run, in a folder that becomes large."""

    def __init__(self, options: Options, servers: Sequence[Server], results: Results, folder: Path) -> None:
        self._options = options
        self._servers = servers
        self._results = results
        self._folder = folder
        self._material = Material(folder / "material", options.scale)

    def run(self) -> None:
        """Have a round for memory, which is read all the time, and then those for speed."""
        for number in range(-1, self._options.rounds):
            for load in LOADS:
                names = self._options.memory_of if number < 0 else self._options.servers
                order = deque(
                    server for server in self._servers if server.name in load.servers and server.name in names
                )
                order.rotate(-number)
                if self._options.rows.intersection(load.rows):
                    for server in order:
                        self._turn(load, server, None if number < 0 else number)
            if self._options.out is not None:
                self._results.write(self._options.out)

    def _turn(self, load: Load, server: Server, number: int | None) -> None:
        failures = self._results.failures
        if server.name in failures.get(load.name, {}):
            return
        name = "memory" if number is None else f"round {number + 1}"
        try:
            told = self._take(load, server, number)
        # Whatever one server makes of one load, the others are measured.
        except Exception as error:
            told = f"{type(error).__name__}: {error}"
            failures.setdefault(load.name, {})[server.name] = told
        sys.stderr.write(f"{name}, {load.name}, {server.name}: {told}\n")

    def _take(self, load: Load, server: Server, number: int | None) -> str:
        """Take a turn and note what it tells, for speed in a round or else for memory; return it as a line."""
        with self._data(load, server) as data:
            os.sync()
            began = time.perf_counter()
            with server.running(data) as site:
                started = time.perf_counter() - began
                turn = self._new_turn(load, server, site, data)
                if number is None:
                    return self._note_memory(load, turn)
                load.run(turn)
                if load.name == START:
                    turn.figures[START] = started
        for row, figure in turn.figures.items():
            if row in self._options.rows:
                self._results.add(row, server.name, number, figure)
        for row, part in turn.refused.items():
            refused = self._results.refused.setdefault(row, {})
            refused[server.name] = max(part, refused.get(server.name, 0.0))
        return ", ".join(f"{row} {figure:.4g}" for row, figure in turn.figures.items())

    def _note_memory(self, load: Load, turn: Turn) -> str:
        time.sleep(_REST_SECONDS)
        rest = processes.memory(turn.site.pid)
        with processes.watched_memory(turn.site.pid) as peak:
            load.run(turn)
        self._results.memory.setdefault(load.name, {})[turn.server.name] = {"rest": rest, "peak": peak}
        return ", ".join(f"{part} {mebibytes:.0f} MiB" for part, mebibytes in peak.items())

    def _new_turn(self, load: Load, server: Server, site: Site, data: Path) -> Turn:
        wanted = self._options.rows.intersection(load.rows)
        return Turn(server, site, data, self._options.scale, self._material, wanted)

    @contextmanager
    def _data(self, load: Load, server: Server) -> Iterator[Path]:
        """Yield the data folder of a turn, with what the load wants to be there."""
        prepared = self._folder / "data" / server.name / load.dataset
        if not prepared.exists():
            prepared.parent.mkdir(parents=True, exist_ok=True)
            # It counts only when it is whole.
            unfinished = prepared.with_name(f"{prepared.name}.new")
            shutil.rmtree(unfinished, ignore_errors=True)
            with server.running(unfinished) as site:
                load.prepare(self._new_turn(load, server, site, unfinished))
            unfinished.rename(prepared)
        if not load.writes:
            yield prepared
            return
        copy = self._folder / "data" / server.name / "turn"
        # Postgres' files belong to another user, which copying in Python would not keep.
        subprocess.run(["cp", "--archive", "--reflink=auto", str(prepared), str(copy)], check=True)  # noqa: S603, S607 - our own files
        try:
            yield copy
        finally:
            shutil.rmtree(copy)
