"""Entry point of the SSH service: `python -m services.ssh`."""

import asyncio

from services.common.failure import fail
from services.common.files import raise_file_limit
from services.common.lifecycle import stop_event
from services.common.observability import logs
from services.common.observability.metrics import served_metrics
from services.common.observability.tracing import traced
from services.common.rpc.client import ServiceClient
from services.common.rpc.options import SSH_METADATA_KEY
from services.ssh.interface import Facade
from services.ssh.server import SshServer, listening
from services.ssh.session import Sessions
from services.ssh.settings import SshSettings
from services.ssh.shares import Shares
from services.ssh.tokens import REPEATABLE, Keys


async def _serve(settings: SshSettings) -> None:
    stop = stop_event(settings.lifeline_fd, settings.heartbeat_fd)
    locks = ServiceClient(
        settings.locks_address,
        deadline=settings.rpc_seconds,
        secret=settings.service_secret,
        further=(SSH_METADATA_KEY, settings.ssh_secret) if settings.ssh_secret else None,
        tls=settings.read_tls(),
        repeatable=REPEATABLE,
    )
    facade = Facade(settings.ssh_facade_url, settings.public_url, settings.https_certificate, 2 * settings.ssh_sessions)
    try:
        sessions = Sessions(settings, facade, Keys(locks, settings.action_seconds), Shares(settings.ssh_sessions))
        server = SshServer(sessions, settings.user_ids(), settings.ssh_sessions)
        with listening(settings.ssh_listen) as listener:
            logs.get_logger(__name__).info("listening", address=str(settings.ssh_listen))
            async with served_metrics(
                settings.ssh_metrics_listen, settings.metrics_token, is_serving=lambda: not stop.is_set()
            ):
                await server.serve(listener, stop, settings.drain_seconds)
    finally:
        await facade.close()
        await locks.close()


def main() -> None:
    """Read the settings and serve until a signal or the parent process ends the service."""
    try:
        settings = SshSettings()
        logs.configure("ssh", level=settings.log_level, log_format=settings.log_format)
        # A session has four, and a connection to the facade.
        raise_file_limit()
        with traced("ssh", settings.traces_endpoint):
            # The loop of the standard library: uvloop waits for no descriptors but sockets and pipes.
            asyncio.run(_serve(settings))
    except ValueError as error:
        fail("ssh", error)


if __name__ == "__main__":
    main()
