"""Small objects on the stack of compose.yaml, beside `towpath up`: `python -m benchmarks.speed.stack`.

It needs Docker. The stack is asked at its facade's port, without a proxy. As it has one facade, so has one of the two
that it is compared with.
"""

import os
import statistics
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.speed import client, machine, wrk
from benchmarks.speed.blobs import read_into_cache
from benchmarks.speed.client import Request, Site
from benchmarks.speed.command import measure
from benchmarks.speed.loads import requests
from benchmarks.speed.material import Material
from benchmarks.speed.scale import Scale
from benchmarks.speed.servers.towpath import Towpath
from tests.stack.compose import ComposeStack
from tests.stack.work import REPOSITORY, add_crew
from tests.support.http import basic
from tests.support.ports import free_ports

STACK = Path(__file__).parents[1] / "speed-stack.json"
_ROUNDS = 3
_OWN = "the stack"
_OTHERS: Mapping[str, Mapping[str, str]] = {"`towpath up`": {}, "`towpath up --facades 1`": {"TOWPATH_FACADES": "1"}}
_LOADS = ("GET of 64 KiB", "PUT of 64 KiB")


@dataclass(frozen=True)
class _Side:
    """One that is asked, and for what."""

    site: Site
    downloads: list[Request]
    uploads: Iterator[Request]


def _side(site: Site, material: Material, scale: Scale) -> _Side:
    held = material.small[: scale.held]
    client.upload(site, held)
    uploads = requests.begun(client.actions(site, "upload", material.puts))
    return _Side(site, client.actions(site, "download", held), iter(uploads))


@contextmanager
def _stack(folder: Path) -> Iterator[Site]:
    [port] = free_ports(1)
    stack = ComposeStack(f"towpath-benchmark-{os.getpid()}", folder, {"TOWPATH_PUBLISH": f"127.0.0.1:{port}"})
    try:
        stack.make("stack")
        user, secret = next(iter(add_crew(stack).items()))
        origin = f"http://{stack.address('facade', 8080)}"
        yield Site(origin, f"{origin}/{REPOSITORY}", 0, {"Authorization": basic(user, secret)})
    finally:
        stack.compose("down", "--volumes", "--timeout=10", check=False)


def _get(side: _Side, scale: Scale, _material: Material) -> wrk.Rate:
    return wrk.in_turn(side.site, side.downloads, seconds=scale.seconds)


def _put(side: _Side, scale: Scale, material: Material) -> wrk.Rate:
    some = [next(side.uploads) for _ in range(scale.puts // (_ROUNDS + 1))]
    return wrk.once(side.site, some, seconds=scale.seconds, padding=material.padding)


def _run(scale: Scale, folder: Path) -> dict[str, Any]:
    material = Material(folder / "material", scale)
    with ExitStack() as owned:
        sites = {_OWN: owned.enter_context(_stack(folder))}
        for number, (name, environment) in enumerate(_OTHERS.items()):
            sites[name] = owned.enter_context(Towpath(name, environment).running(folder / f"var{number}"))
        sides = {name: _side(site, material, scale) for name, site in sites.items()}
        read_into_cache(folder / f"var{number}" for number in range(len(_OTHERS)))
        rates: dict[str, dict[str, list[float]]] = {load: {name: [] for name in sides} for load in _LOADS}
        for load, ask in zip(_LOADS, (_get, _put), strict=True):
            # The round before the first is to warm up.
            for number in range(-1, _ROUNDS):
                for name, side in sides.items():
                    rate = ask(side, scale, material)
                    assert not rate.refused, f"{name} refused {rate.refused} of {rate.requests} requests"
                    if number >= 0:
                        rates[load][name].append(rate.per_second)
    return {"about": machine.about(folder), "rounds": _ROUNDS, "rates": rates}


def table(told: Mapping[str, Any]) -> str:
    """Return a table of what `main` wrote, in Markdown."""
    lines = [
        f"| objects/s | {_OWN} | {' | '.join(_OTHERS)} |",
        f"|---|{'---:|' * (1 + len(_OTHERS))}",
    ]
    for load, rates in told["rates"].items():
        cells = [f"{statistics.median(rates[_OWN]):,.0f}"]
        for name in _OTHERS:
            ratio = statistics.median(a / b for a, b in zip(rates[_OWN], rates[name], strict=True))
            cells.append(f"{statistics.median(rates[name]):,.0f} ({ratio:.2f}×)")
        lines.append(f"| {load} | {' | '.join(cells)} |")
    return "\n".join(lines)


if __name__ == "__main__":
    measure(__doc__, _run, table, STACK)
