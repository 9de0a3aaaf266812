"""A real cache as its own process, in front of any upstream."""

import asyncio
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
from prometheus_client.parser import text_string_to_metric_families

from tests.support.commands import Forked
from tests.support.ports import free_address
from tests.support.service_process import environment_of
from tests.support.waiting import START_SECONDS, STEP_SECONDS, until


@dataclass
class RunningCache:
    """A cache that runs: its origin, its folder, and its process."""

    origin: str
    folder: Path
    log: Path
    process: Forked
    metrics_origin: str

    @property
    def bytes_on_disk(self) -> int:
        """The bytes of all files of objects, those on their way included."""
        return sum(self._size(path) for name in ("objects", "fetches") for path in (self.folder / name).rglob("*"))

    @staticmethod
    def _size(path: Path) -> int:
        try:
            return path.stat().st_blocks * 512 if path.is_file() else 0
        except FileNotFoundError:
            return 0

    @property
    def kept(self) -> set[str]:
        """The oids of the objects that it keeps."""
        return {path.name for path in (self.folder / "objects").rglob("*") if path.is_file()}

    def path(self, oid: str) -> Path:
        """Return the path of an object that it keeps."""
        return self.folder / "objects" / oid[:2] / oid[2:4] / oid

    async def metric(self, name: str, **labels: str) -> float:
        """Return a sample of its metrics."""
        async with httpx.AsyncClient(trust_env=False, timeout=STEP_SECONDS) as http:
            text = (await http.get(f"{self.metrics_origin}/metrics")).text
        samples = [sample for family in text_string_to_metric_families(text) for sample in family.samples]
        return sum(sample.value for sample in samples if sample.name == name and sample.labels == labels)

    async def is_ready(self) -> bool:
        """Return whether it says that it is ready; fail where it has ended."""
        assert self.process.poll() is None, self.log.read_text()
        async with httpx.AsyncClient(trust_env=False, timeout=STEP_SECONDS) as http:
            try:
                return (await http.get(f"{self.metrics_origin}/readyz")).status_code == httpx.codes.OK
            except httpx.TransportError:
                return False

    def kill(self) -> None:
        """Kill it at once, as a power cut would."""
        self.process.kill()
        self.process.wait(STEP_SECONDS)


@asynccontextmanager
async def running_cache(folder: Path, upstream: str, **settings: Any) -> AsyncIterator[RunningCache]:  # noqa: ANN401 - the settings of the service, which checks them
    """Run a cache of an upstream, which keeps objects in `folder/cache`; it answers when this yields."""
    await asyncio.to_thread(folder.mkdir, parents=True, exist_ok=True)
    listen, metrics = free_address(), free_address()
    values = {
        "listen": listen,
        "cache_upstream": upstream,
        "cache_directory": folder / "cache",
        "cache_metrics_listen": metrics,
        "drain_seconds": 1,
        **settings,
    }
    log = folder / "cache.log"
    process = Forked(["services.cache"], log, env=environment_of(values))
    try:
        scheme = "https" if "https_certificate" in settings else "http"
        cache = RunningCache(f"{scheme}://{listen}", folder / "cache", log, process, f"http://{metrics}")
        await until(cache.is_ready, "the cache is ready", seconds=START_SECONDS)
        yield cache
        assert process.poll() in (None, -signal.SIGKILL), log.read_text()
    finally:
        try:
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)
            await asyncio.to_thread(process.wait, STEP_SECONDS)
        finally:
            process.kill()
