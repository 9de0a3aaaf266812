"""The facade's process: `python -m services.facade`."""

import asyncio
import resource
from concurrent.futures import ThreadPoolExecutor

import uvloop

from services.common import allocator as memory
from services.common.failure import fail
from services.common.lifecycle import end, stop_event
from services.common.observability import logs
from services.common.observability.metrics import served_metrics
from services.common.observability.tracing import traced
from services.facade.app import create_app
from services.facade.auth.login_throttle import FailedLogins
from services.facade.auth.login_throttle_sync import told_to_all
from services.facade.auth.revocation_watch import watched_access
from services.facade.clients.services import Peers
from services.facade.objects.removal_feed import watched_removals
from services.facade.objects.shared_disk import shared_disk
from services.facade.server.certificate import Certificate
from services.facade.server.connection_limits import accepting
from services.facade.server.http_server import is_inherited, listening_socket, serve
from services.facade.settings import FacadeSettings
from services.facade.web.trusted_proxies import resolved

# More than there are cores: they wait for a disk that is shared with storage.
_THREADS = 16
# From then on it tells its clients that the inner services do not answer.
_UNREADY_SECONDS = 5.0


def _raise_file_limit() -> None:
    # Downloads have files open beside their connections. The soft limit is meant for programs that call select.
    _, most_files = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most_files, most_files))


async def _wait_ready(peers: Peers, stop: asyncio.Event) -> None:
    """Leave connections to the facades that are ready, for a while: nobody is to be told that this one is not yet."""
    waiting = asyncio.create_task(peers.wait_serving()), asyncio.create_task(stop.wait())
    await asyncio.wait(waiting, timeout=_UNREADY_SECONDS, return_when=asyncio.FIRST_COMPLETED)
    await end(*waiting)


async def _run(settings: FacadeSettings) -> None:
    asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(_THREADS, thread_name_prefix="facade"))
    stop = stop_event(settings.lifeline_fd, settings.heartbeat_fd)
    certificate = Certificate.of(settings.https_certificate, settings.https_key)
    listener = listening_socket(settings.listen)
    logs.get_logger(__name__).info("listening", address=str(listener.getsockname()))
    async with (
        served_metrics(settings.facade_metrics_listen, settings.metrics_token),
        Peers.open(settings) as peers,
        told_to_all(FailedLogins(settings.failed_logins), peers) as failed_logins,
        watched_access(peers) as changes,
        resolved(settings.trusted_proxies) as trusted,
        watched_removals(peers) as removals,
        shared_disk(settings.shared_storage_path, peers, removals) as disk,
    ):
        if is_inherited(settings.listen):
            await _wait_ready(peers, stop)
        app = create_app(settings, peers, failed_logins, changes, removals, stop, trusted=trusted, shared_disk=disk)
        await serve(
            app,
            listener,
            stop,
            accepting=accepting(settings, trusted),
            drain_seconds=settings.drain_seconds,
            certificate=certificate,
        )


def main() -> None:
    """Read the environment and serve until told to stop."""
    try:
        settings = FacadeSettings()
        memory.keep_freed()
        memory.collect_seldom()
        logs.configure("facade", level=settings.log_level, log_format=settings.log_format)
        _raise_file_limit()
        with traced("facade", settings.traces_endpoint):
            uvloop.run(_run(settings))
    except ValueError as error:
        fail("facade", error)


if __name__ == "__main__":
    main()
