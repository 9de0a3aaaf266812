"""Entry point of the lock service: `python -m services.locks [serve|migrate|bootstrap]`."""

import gc

gc.disable()  # Imports make many objects and hardly any garbage: looking for it is a fifth of the start.

import argparse
import sys
from contextlib import redirect_stdout

import uvloop

from services.common.errors import ServiceError
from services.common.failure import fail, report
from services.common.lifecycle import stop_event
from services.common.observability import logs
from services.common.observability.tracing import traced
from services.database.engine import create_engine
from services.database.transactions import Database
from services.locks.access.bootstrap import bootstrap
from services.locks.application import serve
from services.locks.models import SCHEMA
from services.locks.settings import BootstrapSettings, LocksDatabaseSettings, LocksSettings

gc.enable()


async def _serve(_arguments: argparse.Namespace) -> None:
    settings = LocksSettings()
    _log_as(settings)
    with traced("locks", settings.traces_endpoint):
        await serve(settings, stop_event(settings.lifeline_fd, settings.heartbeat_fd))


async def _migrate(arguments: argparse.Namespace) -> None:
    # Imported late because Alembic takes a large part of a service's start-up time.
    from services.database.migrations import migrate

    settings = LocksDatabaseSettings()
    _log_as(settings)
    if note := await migrate(settings.database, SCHEMA, wait_seconds=arguments.wait):
        report(note)


async def _bootstrap(_arguments: argparse.Namespace) -> None:
    settings = BootstrapSettings()
    # Log lines go to the standard error, so that the standard output has only the secret.
    with redirect_stdout(sys.stderr):
        _log_as(settings)
    database = Database(create_engine(settings.database, schema=SCHEMA.name, pool_size=1))
    try:
        secret = await bootstrap(database, settings.admin_token)
    finally:
        await database.close()
    sys.stdout.write(f"{secret}\n")


def _log_as(settings: LocksDatabaseSettings) -> None:
    logs.configure("locks", level=settings.log_level, log_format=settings.log_format)


_COMMANDS = {"serve": _serve, "migrate": _migrate, "bootstrap": _bootstrap}


def main() -> None:
    """Run the command that the arguments name."""
    parser = argparse.ArgumentParser(prog="python -m services.locks", description="The lock service of Towpath.")
    parser.add_argument("command", nargs="?", default="serve", choices=_COMMANDS)
    parser.add_argument("--wait", type=float, default=0.0, help="seconds that `migrate` waits for Postgres")
    arguments = parser.parse_args()
    try:
        uvloop.run(_COMMANDS[arguments.command](arguments))
    except (ValueError, ServiceError) as error:
        fail("locks", error)


if __name__ == "__main__":
    main()
