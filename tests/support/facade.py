"""A real facade in this process, served by uvicorn on a loopback port."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from services.facade.app import create_app
from services.facade.auth.login_throttle import LoginRateLimiter, synchronised
from services.facade.auth.refusal_reports import reported_refusals
from services.facade.auth.revocation_watch import watch_revocations
from services.facade.clients.services import ServiceClients
from services.facade.objects.removal_feed import watch_removals
from services.facade.objects.shared_disk import shared_disk
from services.facade.server.certificate import Certificate
from services.facade.server.connections import connection_limits
from services.facade.server.http_server import listening_socket, serve
from services.facade.settings import FacadeSettings
from services.facade.web.trusted_proxies import resolved_proxies

SIGNING_KEY = "a key that signs nothing outside of these tests"


@dataclass
class RunningFacade:
    """A facade that runs: its origin, its settings, and what stops it."""

    origin: str
    settings: FacadeSettings
    stop: asyncio.Event
    served: asyncio.Task[None]

    @property
    def address(self) -> tuple[str, int]:
        """The host and the port at which it listens."""
        host, _, port = self.origin.partition("://")[2].rpartition(":")
        return host, int(port)


@asynccontextmanager
async def running_facade(
    storage_address: str,
    locks_address: str,
    **settings: Any,  # noqa: ANN401 - the settings of the service, which checks them
) -> AsyncIterator[RunningFacade]:
    """Run a facade in front of these services; it answers when this yields."""
    values = {
        "listen": "127.0.0.1:0",
        "storage_address": storage_address,
        "locks_address": locks_address,
        "signing_key": SIGNING_KEY,
        "drain_seconds": 1,
        **settings,
    }
    checked = FacadeSettings.model_validate(values)
    listener = listening_socket(checked.listen)
    host, port = listener.getsockname()[:2]
    stop = asyncio.Event()
    async with (
        ServiceClients.open(checked) as peers,
        synchronised(LoginRateLimiter(checked.failed_logins), peers) as failed_logins,
        watch_revocations(peers) as changes,
        reported_refusals(peers) as refusals,
        resolved_proxies(checked.trusted_proxies) as trusted,
        watch_removals(peers) as removals,
        shared_disk(checked.shared_storage_path, peers, removals) as disk,
    ):
        app = create_app(
            checked, peers, failed_logins, changes, removals, stop, trusted=trusted, shared_disk=disk, refusals=refusals
        )
        certificate = Certificate.of(checked.https_certificate, checked.https_key)
        served = asyncio.create_task(
            serve(
                app,
                listener,
                stop,
                limits=connection_limits(checked, trusted),
                drain_seconds=checked.drain_seconds,
                certificate=certificate,
            )
        )
        try:
            scheme = "https" if certificate else "http"
            yield RunningFacade(f"{scheme}://{host}:{port}", checked, stop, served)
        finally:
            stop.set()
            await served
