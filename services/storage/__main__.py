"""Entry point of the storage service: `python -m services.storage [serve|migrate]`."""

import gc

gc.disable()  # Imports make many objects and hardly any garbage: looking for it is a fifth of the start.

import argparse
import asyncio
from concurrent.futures import ThreadPoolExecutor

import uvloop

from services.common import allocator, lifecycle
from services.common.errors import ServiceError
from services.common.failure import fail, report
from services.common.observability import logs
from services.common.observability.tracing import traced
from services.storage.application import serve
from services.storage.index.schema import SCHEMA
from services.storage.settings import MigrationSettings, StorageSettings

gc.enable()

# More threads than cores, because the threads mostly wait for the disk.
_THREADS = 16


async def _migrate(settings: MigrationSettings, *, wait_seconds: float) -> None:
    # Imported here because importing Alembic takes a large part of a service's start time.
    from services.database.migrations import migrate

    if note := await migrate(settings.database, SCHEMA, wait_seconds=wait_seconds):
        report(note)


async def _serve(settings: StorageSettings) -> None:
    asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(_THREADS, thread_name_prefix="storage"))
    await serve(settings, lifecycle.stop_event(settings.lifeline_fd, settings.heartbeat_fd))


def main() -> None:
    """Run the command that the arguments name, with the settings of the environment."""
    parser = argparse.ArgumentParser(prog="python -m services.storage", description="The storage service of Towpath.")
    parser.add_argument("command", nargs="?", choices=["serve", "migrate"], default="serve")
    parser.add_argument("--wait", type=float, default=0.0, help="seconds that `migrate` waits for Postgres")
    arguments = parser.parse_args()
    try:
        settings = StorageSettings() if arguments.command == "serve" else MigrationSettings()
        logs.configure("storage", level=settings.log_level, log_format=settings.log_format)
        if isinstance(settings, StorageSettings):
            allocator.tune_malloc()
            allocator.tune_garbage_collector()
            with traced("storage", settings.traces_endpoint):
                uvloop.run(_serve(settings))
        else:
            asyncio.run(_migrate(settings, wait_seconds=arguments.wait))
    except (ValueError, ServiceError) as error:
        fail("storage", error)


if __name__ == "__main__":
    main()
