"""Cost of a request in each process, by package and function: `python -m benchmarks.speed.parts`.

The cost is CPU time, as the system counts it. The shares of packages and functions come from py-spy, in a separate run.
They cover the time for which code holds Python's interpreter lock: C code that holds it counts for its Python caller,
and work without it, such as hashing, is left out.
"""

import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass
from itertools import count
from pathlib import Path
from typing import Any

from benchmarks.speed import curl, machine, processes, programs, wrk
from benchmarks.speed.client import Request
from benchmarks.speed.command import measure
from benchmarks.speed.loads import locks, requests, transfers
from benchmarks.speed.material import Material
from benchmarks.speed.scale import Scale
from benchmarks.speed.servers import TOWPATH, servers
from benchmarks.speed.turn import Turn

PARTS = Path(__file__).parents[1] / "speed-parts.json"
_SERVICES = ("services.facade", "services.locks", "services.storage")
_CONNECTIONS = 4
_LOCKS = 1000
_SAMPLES_A_SECOND = 200
_MAX_NAMED = 5
_MAX_FUNCTIONS = 15
_PROFILE_SECONDS = 60

Ask = Callable[[int], int]
"""Asks for something for so many seconds, and tells how often."""

Seen = tuple[str, int]
"""A frame or a package, and how often it was running."""


@dataclass(frozen=True)
class Part:
    """The cost of a request in a process: CPU milliseconds, and the shares of packages and functions, as parts of 1."""

    user: float
    system: float
    packages: Mapping[str, float]
    functions: Mapping[str, float]


def _kinds(turn: Turn) -> dict[str, Ask]:
    numbers = count(0, 2**20)
    uploads = iter(requests.small_uploads(turn))

    def in_turn(asked: list[Request]) -> Ask:
        return lambda seconds: wrk.in_turn(turn.site, asked, seconds=seconds, connections=_CONNECTIONS).requests

    def numbered(asked: Request, wrap: int = 2**32) -> Ask:
        return lambda seconds: (
            wrk.numbered(
                turn.site, asked, seconds=seconds, first=next(numbers) % wrap, wrap=wrap, connections=_CONNECTIONS
            ).requests
        )

    def put_small(seconds: int) -> int:
        some = [next(uploads) for _ in range(turn.scale.puts // 4)]
        return wrk.once(turn.site, some, seconds=seconds, padding=turn.material.padding).requests

    def get_large(_seconds: int) -> int:
        blobs = turn.material.large[:1]
        curl.get(turn.server.downloads(turn.site, blobs), blobs, times=3)
        return 3

    large = iter(turn.material.large[1:])

    def put_large(_seconds: int) -> int:
        turn.server.put(turn.site, turn.data, [next(large)])
        return 1

    return {
        "batch of one download": in_turn(requests.held_batches(turn, 1)),
        "batch of 100 downloads": in_turn(requests.held_batches(turn, requests.HUNDRED)),
        "batch of 100 uploads": numbered(requests.new_batch(turn)),
        "GET of 64 KiB": in_turn(turn.server.downloads(turn.site, turn.material.small[: turn.scale.held])),
        "PUT of 64 KiB": put_small,
        "GET of 1 GiB": get_large,
        "PUT of 1 GiB": put_large,
        "lock a path": numbered(locks.creation(turn.site)),
        "list 100 locks": in_turn([locks.listing(turn.site)]),
        "verify 100 locks": in_turn([locks.verification(turn.site)]),
        "look up a path": numbered(locks.by_path(turn.site), wrap=_LOCKS),
    }


def _measure(turn: Turn, ask: Ask, seconds: int) -> dict[str, Part]:
    """Return what one request takes of each process."""
    ask(1)
    before = processes.cpu(turn.site.pid)
    times = ask(seconds)
    spent = processes.difference(before, processes.cpu(turn.site.pid))
    stacks = _profiled(turn, lambda: ask(seconds), seconds)
    return {
        role: Part(
            user * 1000 / times,
            system * 1000 / times,
            shares(map(package, stacks.get(role, []))),
            shares(stacks.get(role, []), most=_MAX_FUNCTIONS),
        )
        for role, (user, system) in spent.items()
        if role in (*_SERVICES, processes.POSTGRES)
    }


def _profiled(turn: Turn, do: Callable[[], object], seconds: int) -> dict[str, list[Seen]]:
    """Return what each service is seen at while something is done; nothing where py-spy is not installed."""
    spy = programs.find("py-spy") or str(Path(sys.executable).with_name("py-spy"))
    found: dict[str, list[Seen]] = {}
    if not Path(spy).exists():
        return found
    with tempfile.TemporaryDirectory() as folder:
        running = []
        for pid, role in processes.family(turn.site.pid).items():
            if role in _SERVICES:
                file = Path(folder) / str(pid)
                command = [spy, "record", f"--pid={pid}", f"--duration={seconds}", f"--rate={_SAMPLES_A_SECOND}"]
                command += ["--format=raw", f"--output={file}", "--gil"]
                process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)  # noqa: S603 - our own command
                running.append((role, file, process))
        do()
        for role, file, process in running:
            process.wait(_PROFILE_SECONDS)
            lines = file.read_text().splitlines() if file.exists() else []
            found.setdefault(role, []).extend(seen for line in lines if (seen := innermost(line)))
    return found


def innermost(stack: str) -> Seen | None:
    """Return the innermost frame of a stack and how often it was seen; None where it has no frame.

    A stack is what py-spy's format `raw` has: frames such as `name (folder/file.py:12)` with `;` between them, and
    after a space how often it was seen.
    """
    frames, _, times = stack.rpartition(" ")
    frame = frames.rpartition(";")[2].strip()
    return (frame, int(times)) if frame else None


def shares(seen: Iterable[Seen], *, most: int | None = None) -> dict[str, float]:
    """Return which part of all that was seen each thing is, the largest first."""
    together: Counter[str] = Counter()
    for what, times in seen:
        together[what] += times
    return {what: times / together.total() for what, times in together.most_common(most)}


def package(seen: Seen) -> Seen:
    """Return of which package a frame is: of ours the service too, of others the first folder."""
    frame, times = seen
    folders = Path(frame.rpartition("(")[2].rpartition(":")[0]).parts
    ours = len(folders) > 1 and folders[0] == "services"
    return ".".join(folders[:2]) if ours else Path(folders[0]).stem if folders else frame, times


def table(told: Mapping[str, Any]) -> str:
    """Return a table of what `main` wrote, in Markdown."""
    lines = ["| request | process | CPU ms, user | system | where |", "|---|---|---:|---:|---|"]
    for kind, by_role in told["kinds"].items():
        for role, part in by_role.items():
            top = list(part["packages"].items())[:_MAX_NAMED]
            where = ", ".join(f"`{package}` {share:.0%}" for package, share in top)
            lines.append(f"| {kind} | {role} | {part['user']:.2f} | {part['system']:.2f} | {where} |")
    return "\n".join(lines)


def _run(scale: Scale, folder: Path) -> dict[str, Any]:
    [server] = servers(folder, (TOWPATH,))
    material, data = Material(folder / "material", scale), folder / "var"
    with server.running(data) as site:
        turn = Turn(server, site, data, scale, material, rows=())
        requests.prepare(turn)
        transfers.prepare_large(turn)
        locks.prepare(turn, level=_LOCKS * scale.divisor)
        kinds = {name: _measure(turn, ask, scale.seconds) for name, ask in _kinds(turn).items()}
    return {
        "about": machine.about(folder),
        "kinds": {name: {role: asdict(part) for role, part in parts.items()} for name, parts in kinds.items()},
    }


if __name__ == "__main__":
    measure(__doc__, _run, table, PARTS)
