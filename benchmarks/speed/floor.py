"""Rate of small requests that the frameworks alone answer, beside Towpath: `python -m benchmarks.speed.floor`.

No server built on these frameworks can answer more, and a server that works for its answers answers fewer.
"""

import statistics
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from benchmarks.speed import machine, programs, wrk
from benchmarks.speed.client import Request, Site
from benchmarks.speed.command import measure
from benchmarks.speed.frameworks import Step
from benchmarks.speed.loads import requests
from benchmarks.speed.material import Material
from benchmarks.speed.scale import Scale
from benchmarks.speed.servers import TOWPATH, servers
from benchmarks.speed.servers.towpath import postgres
from benchmarks.speed.turn import Turn
from tests.support.ports import free_ports

FLOOR = Path(__file__).parents[1] / "speed-floor.json"
_ROUNDS = 3
_NAMES = {
    Step.UVICORN: "uvicorn",
    Step.FASTAPI: "and FastAPI",
    Step.GRPC: "and a call by gRPC to another process",
    Step.POSTGRES: "and a statement of that one to Postgres",
}
_OWN = "Towpath, a batch of one"


def _rate(site: Site, asked: list[Request], seconds: int) -> float:
    wrk.in_turn(site, asked, seconds=1)
    rate = wrk.in_turn(site, asked, seconds=seconds)
    assert rate.refused == 0, f"{rate.refused} of {rate.requests} requests were refused"
    return rate.per_second


def _floor(step: Step, batch: Request, url: str, folder: Path, seconds: int) -> float:
    """Return how many requests a second a step answers, of the size of a batch."""
    [port] = free_ports(1)
    origin = f"http://127.0.0.1:{port}"
    command = [sys.executable, "-m", "benchmarks.speed.frameworks", str(port), str(int(step)), "--postgres", url]
    with programs.server(command, origin, folder, {"PYTHONPATH": str(Path(__file__).parents[2])}) as pid:
        asked = Request("POST", f"{origin}/", batch.headers, batch.body)
        return _rate(Site(origin, origin, pid), [asked], seconds)


def _run(scale: Scale, folder: Path) -> dict[str, Any]:
    [server] = servers(folder, (TOWPATH,))
    data = folder / "var"
    rates: dict[str, list[float]] = {name: [] for name in (*_NAMES.values(), _OWN)}
    with server.running(data) as site:
        turn = Turn(server, site, data, scale, Material(folder / "material", scale), rows=())
        requests.prepare(turn)
        batches = requests.held_batches(turn, 1)
        for _ in range(_ROUNDS):
            for step, name in _NAMES.items():
                rates[name].append(_floor(step, batches[0], postgres(data).url, folder, scale.seconds))
            rates[_OWN].append(_rate(site, batches, scale.seconds))
    own = rates[_OWN]
    return {
        "about": machine.about(folder),
        "rounds": _ROUNDS,
        "rates": {name: statistics.median(each) for name, each in rates.items()},
        "ratios": {
            name: statistics.median(a / b for a, b in zip(own, each, strict=True)) for name, each in rates.items()
        },
    }


def table(told: Mapping[str, Any]) -> str:
    """Return a table of what `main` wrote, in Markdown."""
    lines = ["| | req/s | Towpath beside it |", "|---|---:|---:|"]
    lines += [f"| {name} | {rate:,.0f} | {told['ratios'][name]:.2f}× |" for name, rate in told["rates"].items()]
    return "\n".join(lines)


if __name__ == "__main__":
    measure(__doc__, _run, table, FLOOR)
