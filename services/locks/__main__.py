"""The process of the lock service: `python -m services.locks [serve|migrate|bootstrap]`."""

import argparse
import asyncio
import sys
from contextlib import redirect_stdout

from services.common import logs
from services.common.lifecycle import stop_event
from services.database.engine import create_engine
from services.database.migrations import migrate
from services.database.transactions import Database
from services.locks.application import serve
from services.locks.bootstrap import bootstrap
from services.locks.models import SCHEMA
from services.locks.settings import LocksDatabaseSettings, LocksSettings


async def _serve() -> None:
    settings = LocksSettings()
    _log_as(settings)
    await serve(settings, stop_event(settings.lifeline_fd))


async def _migrate() -> None:
    settings = LocksDatabaseSettings()
    _log_as(settings)
    await migrate(settings.database, SCHEMA)


async def _bootstrap() -> None:
    settings = LocksDatabaseSettings()
    # The secret is all that standard output gets.
    with redirect_stdout(sys.stderr):
        _log_as(settings)
    database = Database(create_engine(settings.database, schema=SCHEMA.name, pool_size=1))
    try:
        secret = await bootstrap(database)
    finally:
        await database.close()
    sys.stdout.write(f"{secret}\n")


def _log_as(settings: LocksDatabaseSettings) -> None:
    logs.configure("locks", level=settings.log_level, log_format=settings.log_format)


_COMMANDS = {"serve": _serve, "migrate": _migrate, "bootstrap": _bootstrap}


def main() -> None:
    """Do what the one argument says."""
    parser = argparse.ArgumentParser(prog="python -m services.locks", description="The lock service of Towpath.")
    parser.add_argument("command", nargs="?", default="serve", choices=_COMMANDS)
    command = parser.parse_args().command
    try:
        asyncio.run(_COMMANDS[command]())
    except ValueError as error:
        sys.exit(f"locks: {error}")


if __name__ == "__main__":
    main()
