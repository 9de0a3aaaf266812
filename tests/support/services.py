"""The three services as processes of their own, with a repository, two users, and what an operator sees of them."""

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import httpx
from prometheus_client.parser import text_string_to_metric_families
from pydantic import SecretStr
from towpath.access.v1 import admin_service_pb2 as admin

from tests.support.http import Client
from tests.support.locks import running_locks
from tests.support.postgres import TestPostgres
from tests.support.service_process import wait_ready
from tests.support.waiting import STEP_SECONDS, until, until_answer

SERVICES = ("storage", "locks", "facade")
IN_FLIGHT = {
    "facade": "towpath_http_requests_in_flight",
    "storage": "towpath_grpc_in_flight",
    "locks": "towpath_grpc_in_flight",
}
SIGNING_KEY = "a key that signs nothing outside of these tests"
SERVICE_SECRET = "what the services show each other in these tests"
METRICS_TOKEN = "what a scraper shows in these tests"
REPOSITORY = "demo/assets"

Samples = dict[tuple[str, frozenset[tuple[str, str]]], float]


def key(name: str, **labels: str) -> tuple[str, frozenset[tuple[str, str]]]:
    """Return the key of a sample."""
    return name, frozenset(labels.items())


@dataclass
class Services:
    """The running services: where they are reached, where their logs lie, who has which token."""

    folder: Path
    database_url: SecretStr
    tokens: dict[str, str] = field(default_factory=dict)
    processes: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    def log(self, service: str) -> str:
        """Return what a service has written on standard output and standard error."""
        return (self.folder / f"{service}.log").read_text()

    def lines(self, service: str) -> list[dict[str, Any]]:
        """Return a service's log lines; a line that is no JSON object fails."""
        return [json.loads(line) for line in self.log(service).splitlines()]

    def address(self, service: str, event: str) -> str:
        """Return the address that a service told in its log."""
        (line,) = [line for line in self.lines(service) if line["event"] == event]
        address: str = line["address"]
        return address

    @property
    def origin(self) -> str:
        """The origin of the facade."""
        host, port = self.address("facade", "listening").strip("()").replace("'", "").split(", ")
        return f"http://{host}:{port}"

    def client(self, user: str) -> Client:
        """Return a client of a user in the repository."""
        return Client(f"{self.origin}/{REPOSITORY}", user, self.tokens[user])

    def metrics_address(self, service: str) -> str:
        """Return HOST:PORT of a service's metrics."""
        return self.address(service, "metrics")

    async def scrape(self, service: str) -> Samples:
        """Return all samples that a service tells now."""
        async with httpx.AsyncClient(trust_env=False, timeout=STEP_SECONDS) as http:
            response = await http.get(
                f"http://{self.metrics_address(service)}/metrics", headers={"Authorization": f"Bearer {METRICS_TOKEN}"}
            )
        response.raise_for_status()
        return {
            key(sample.name, **sample.labels): sample.value
            for family in text_string_to_metric_families(response.text)
            for sample in family.samples
        }

    async def idle(self) -> None:
        """Wait until what was answered is counted and logged too, which comes after the answer."""
        for service, series in IN_FLIGHT.items():
            await until_answer(0, partial(self._sample, service, series))

    async def _sample(self, service: str, series: str) -> float:
        return (await self.scrape(service))[key(series)]

    async def scrape_all(self) -> dict[str, Samples]:
        """Return the samples of every service, when it is idle."""
        await self.idle()
        return {service: await self.scrape(service) for service in SERVICES}

    def start(self, service: str, settings: Mapping[str, object]) -> None:
        """Start a service."""
        named = {f"TOWPATH_{name.upper()}": str(value) for name, value in settings.items()}
        kept = {name: text for name, text in os.environ.items() if not name.startswith("TOWPATH_")}
        with (self.folder / f"{service}.log").open("ab") as output:
            self.processes[service] = subprocess.Popen(
                [sys.executable, "-m", f"services.{service}"], stdout=output, stderr=output, env={**kept, **named}
            )

    async def stop(self) -> None:
        """End all of them, the facade first."""
        for service in reversed(SERVICES):
            process = self.processes.get(service)
            if process is not None and process.poll() is None:
                process.send_signal(signal.SIGTERM)
                try:
                    await asyncio.to_thread(process.wait, STEP_SECONDS)
                finally:
                    process.kill()


async def _populate(services: Services) -> None:
    async with running_locks(services.database_url, services.folder) as locks:
        await locks.add_repository(REPOSITORY)
        for user in ("alice", "bob"):
            await locks.add_user(user)
            services.tokens[user] = await locks.add_token(user)
            await locks.grant(user, REPOSITORY, admin.ROLE_WRITE)
        services.tokens["admin"] = locks.admin_token


@asynccontextmanager
async def running_services(postgres: TestPostgres, folder: Path, **settings: object) -> AsyncIterator[Services]:
    """Run them, each with metrics on a free port; `settings` go to all. They are ready when this yields."""
    services = Services(folder, await postgres.create_database())
    await _populate(services)
    url = services.database_url.get_secret_value()
    addresses = {name: f"unix:{folder / name}.process" for name in ("storage", "locks")}
    shared = {"service_secret": SERVICE_SECRET, "metrics_token": METRICS_TOKEN, "drain_seconds": 2, **settings}
    own: dict[str, dict[str, object]] = {
        "storage": {"storage_database_url": url, "storage_url": (folder / "bytes").as_uri()},
        "locks": {"locks_database_url": url, "storage_address": addresses["storage"]},
        "facade": {"signing_key": SIGNING_KEY, "listen": "127.0.0.1:0"},
    }
    own["facade"] |= {f"{name}_address": address for name, address in addresses.items()}
    for name, address in addresses.items():
        own[name][f"{name}_listen"] = address
    async with AsyncExitStack() as stack:
        stack.push_async_callback(services.stop)
        for service in SERVICES:
            metrics = {f"{service}_metrics_listen": "127.0.0.1:0"}
            services.start(service, {**shared, **metrics, **own[service]})
        await until(lambda: '"listening"' in services.log("facade"), "the facade listens")
        await wait_ready(services.origin)
        yield services
