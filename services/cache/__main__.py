"""Entry point of the cache's process: `python -m services.cache`."""

import gc

gc.disable()  # Imports make many objects and hardly any garbage: looking for it is a fifth of the start.

import asyncio
from concurrent.futures import ThreadPoolExecutor

import uvloop

from services.cache.application import create_app
from services.cache.context import CacheContext
from services.cache.objects import Objects
from services.cache.rights import Rights
from services.cache.settings import CacheSettings
from services.cache.store import ObjectStore
from services.cache.tokens import Tokens, kept_key
from services.cache.upstream import Upstream
from services.common import allocator
from services.common.failure import fail
from services.common.files import raise_file_limit
from services.common.lifecycle import stop_event
from services.common.observability import logs
from services.common.observability.metrics import served_metrics
from services.common.observability.tracing import traced
from services.facade.middleware.concurrency_limit import watches_of
from services.facade.server.certificate import Certificate
from services.facade.server.connections import connection_limits
from services.facade.server.http_server import listening_socket, serve
from services.facade.web.trusted_proxies import resolved_proxies

gc.enable()

# More threads than cores, because they wait for a disk.
_THREADS = 32


async def _run(settings: CacheSettings) -> None:
    asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(_THREADS, thread_name_prefix="cache"))
    stop = stop_event(settings.lifeline_fd, settings.heartbeat_fd)
    certificate = Certificate.of(settings.https_certificate, settings.https_key)
    listener = listening_socket(settings.listen)
    logs.get_logger(__name__).info("listening", address=str(listener.getsockname()))
    async with (
        served_metrics(settings.cache_metrics_listen, settings.metrics_token, is_serving=lambda: not stop.is_set()),
        ObjectStore.open(settings.cache_directory, settings.cache_bytes) as store,
        Upstream.open(settings) as upstream,
        Objects.running(store, upstream, settings.cache_fetches) as objects,
        resolved_proxies(settings.trusted_proxies) as trusted,
    ):
        key = settings.cache_key.get_secret_value() if settings.cache_key else kept_key(settings.cache_directory)
        context = CacheContext(settings, upstream, objects, Rights(), Tokens(key), watches_of(settings), trusted)
        await serve(
            create_app(context, stop),
            listener,
            stop,
            limits=connection_limits(settings, trusted),
            drain_seconds=settings.drain_seconds,
            certificate=certificate,
        )


def main() -> None:
    """Read the settings and serve until a signal or the parent process ends the cache."""
    try:
        settings = CacheSettings()
        allocator.tune_malloc()
        allocator.tune_garbage_collector()
        logs.configure("cache", level=settings.log_level, log_format=settings.log_format)
        # A download has a file open beside its connection.
        raise_file_limit()
        with traced("cache", settings.traces_endpoint):
            uvloop.run(_run(settings))
    except ValueError as error:
        fail("cache", error)


if __name__ == "__main__":
    main()
