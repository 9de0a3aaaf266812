"""Prometheus metrics that every service has; each service declares its further metrics in its module `metrics`.

All metrics are in the one registry that prometheus-client has for the process.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from concurrent.futures import Future
from contextlib import asynccontextmanager
from functools import partial
from importlib.metadata import version

from prometheus_client import REGISTRY, Gauge, Histogram
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector
from pydantic import SecretStr

from services.common.lifecycle import running
from services.common.observability.metrics_server import serve_metrics

SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300)
"""The buckets for durations of milliseconds, and of minutes for a big object."""

_BUILD = Gauge("towpath_build_info", "The version that runs; always 1.", ["version"])
_LOOP_LAG = Histogram(
    "towpath_event_loop_lag_seconds",
    "How much later than it asked for a sleeping task went on.",
    buckets=(0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5),
)
_LAG_INTERVAL_SECONDS = 0.5
_READY_SECONDS = 2.0


class Snapshot(Collector):
    """A gauge whose label values change: all its series are replaced at once."""

    def __init__(self, name: str, documentation: str, labels: Iterable[str]) -> None:
        self._name, self._documentation, self._labels = name, documentation, tuple(labels)
        self._values: Mapping[tuple[str, ...], float] = {}
        REGISTRY.register(self)

    def replace(self, values: Mapping[tuple[str, ...], float]) -> None:
        """Report these values from now on, each under the values of its labels."""
        self._values = values

    def collect(self) -> Iterable[GaugeMetricFamily]:
        """Return the series for a scrape."""
        family = GaugeMetricFamily(self._name, self._documentation, labels=self._labels)
        for labels, value in self._values.items():
            family.add_metric(labels, value)
        return [family]


@asynccontextmanager
async def served_metrics(
    listen: str | None, token: SecretStr | None, *, is_serving: Callable[[], bool] | None = None
) -> AsyncIterator[None]:
    """Serve and sample the metrics inside the context; without an address, do nothing.

    `/healthz` answers whether the event loop runs, and `is_serving` probes of readiness. It runs on the event loop, so
    that a process that hangs is not ready. Raises the errors of `serve_metrics`.
    """
    if listen is None:
        yield
        return
    _BUILD.labels(version("towpath")).set(1)
    ask = partial(_ask, asyncio.get_running_loop())
    probes = {"/healthz": partial(ask, lambda: True)}
    if is_serving is not None:
        probes["/readyz"] = partial(ask, is_serving)
    stop_serving = serve_metrics(listen, token, probes)
    try:
        async with running(_watch_lag()):
            yield
    finally:
        await asyncio.to_thread(stop_serving)


def _ask(loop: asyncio.AbstractEventLoop, question: Callable[[], bool]) -> bool:
    """Return the event loop's answer to a question of another thread; False if it does not answer in time."""
    answer: Future[bool] = Future()
    try:
        loop.call_soon_threadsafe(lambda: answer.set_result(question()))
        return answer.result(_READY_SECONDS)
    except (TimeoutError, RuntimeError):  # the loop hangs, or has ended
        return False


async def _watch_lag() -> None:
    loop = asyncio.get_running_loop()
    while True:
        due = loop.time() + _LAG_INTERVAL_SECONDS
        await asyncio.sleep(_LAG_INTERVAL_SECONDS)
        _LOOP_LAG.observe(max(0.0, loop.time() - due))
