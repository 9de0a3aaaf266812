"""Entry point of the facade's process: `python -m services.facade`."""

import gc

gc.disable()  # Imports make many objects and hardly any garbage: looking for it is a fifth of the start.

import asyncio
from concurrent.futures import ThreadPoolExecutor

import uvloop

from services.common import allocator
from services.common.failure import fail
from services.common.files import raise_file_limit
from services.common.lifecycle import cancel_and_wait, stop_event
from services.common.observability import logs
from services.common.observability.metrics import served_metrics
from services.common.observability.tracing import traced
from services.facade.app import create_app
from services.facade.auth.login_throttle import LoginRateLimiter, synchronised
from services.facade.auth.refusal_reports import reported_refusals
from services.facade.auth.revocation_watch import watch_revocations
from services.facade.clients.services import ServiceClients
from services.facade.objects.removal_feed import watch_removals
from services.facade.objects.shared_disk import shared_disk
from services.facade.server.certificate import Certificate
from services.facade.server.connections import connection_limits
from services.facade.server.http_server import is_inherited, listening_socket, serve
from services.facade.settings import FacadeSettings
from services.facade.web.trusted_proxies import resolved_proxies

gc.enable()

# More threads than cores, because the threads wait for a disk that is shared with storage.
_THREADS = 16
# After this time the facade serves anyway and answers that the inner services are not available.
_UNREADY_SECONDS = 5.0


async def _wait_ready(clients: ServiceClients, stop: asyncio.Event) -> None:
    """Wait until the inner services serve or `stop` is set, for at most 5 s.

    Meanwhile the facades that share the listening socket accept its connections, so that no client is refused because
    this facade is not ready.
    """
    waiting = asyncio.create_task(clients.wait_serving()), asyncio.create_task(stop.wait())
    await asyncio.wait(waiting, timeout=_UNREADY_SECONDS, return_when=asyncio.FIRST_COMPLETED)
    await cancel_and_wait(*waiting)


async def _run(settings: FacadeSettings) -> None:
    asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(_THREADS, thread_name_prefix="facade"))
    stop = stop_event(settings.lifeline_fd, settings.heartbeat_fd)
    certificate = Certificate.of(settings.https_certificate, settings.https_key)
    listener = listening_socket(settings.listen)
    logs.get_logger(__name__).info("listening", address=str(listener.getsockname()))
    async with (
        served_metrics(settings.facade_metrics_listen, settings.metrics_token),
        ServiceClients.open(settings) as clients,
        synchronised(LoginRateLimiter(settings.failed_logins), clients) as failed_logins,
        watch_revocations(clients) as changes,
        reported_refusals(clients) as refusals,
        resolved_proxies(settings.trusted_proxies) as trusted,
        watch_removals(clients) as removals,
        shared_disk(settings.shared_storage_path, clients, removals) as disk,
    ):
        if is_inherited(settings.listen):
            await _wait_ready(clients, stop)
        app = create_app(
            settings,
            clients,
            failed_logins,
            changes,
            removals,
            stop,
            trusted=trusted,
            shared_disk=disk,
            refusals=refusals,
        )
        await serve(
            app,
            listener,
            stop,
            limits=connection_limits(settings, trusted),
            drain_seconds=settings.drain_seconds,
            certificate=certificate,
        )


def main() -> None:
    """Read the settings and serve until a signal or the parent process ends the service."""
    try:
        settings = FacadeSettings()
        allocator.tune_malloc()
        allocator.tune_garbage_collector()
        logs.configure("facade", level=settings.log_level, log_format=settings.log_format)
        # A download has a file open beside its connection.
        raise_file_limit()
        with traced("facade", settings.traces_endpoint):
            uvloop.run(_run(settings))
    except ValueError as error:
        fail("facade", error)


if __name__ == "__main__":
    main()
