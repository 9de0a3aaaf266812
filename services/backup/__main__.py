"""The operator's commands on the data of all services: `python -m services.backup backup|restore|verify|check`.

The standard output gets one JSON document, the standard error everything else. The exit status is 1 if the command
failed or objects are lost.
"""

import gc

gc.disable()  # Imports make many objects and hardly any garbage: looking for it is a fifth of the start.

import argparse
import asyncio
import json
import os
import sys
from collections.abc import Awaitable, Callable, Mapping
from contextlib import redirect_stdout
from functools import partial
from pathlib import Path

import asyncpg
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import AsyncEngine

from services.backup.backup import back_up
from services.backup.check import check
from services.backup.errors import BackupError
from services.backup.restore import refuse, restore
from services.backup.settings import BackupSettings
from services.backup.stores import open_source, open_target
from services.backup.verification import verify
from services.common import lifecycle
from services.common.errors import ServiceError
from services.common.observability import logs
from services.database.migrations import create_operator_engine

gc.enable()

Report = tuple[Mapping[str, object], bool]
"""The document to print, and whether no object is lost or damaged."""


async def _backup(arguments: argparse.Namespace, engine: AsyncEngine, storage_url: str) -> Report:
    # A backup contains names of users and hashes of tokens: other users must not read it, whoever made the folder.
    os.umask(0o077)
    source = await open_source(engine, storage_url)
    report = await back_up(source, arguments.folder, copy_objects=not arguments.no_objects, prune=arguments.prune)
    return report, not report["lost"]


async def _restore(arguments: argparse.Namespace, engine: AsyncEngine, storage_url: str) -> Report:
    target = await open_target(engine, storage_url)
    report, findings = await restore(
        target, arguments.folder, digest=arguments.digest, skip_damaged=arguments.skip_damaged
    )
    return {**report, "check": findings.record()}, not findings.damaged


def _verify(arguments: argparse.Namespace) -> Report:
    """Verify the backup alone, so that the caller prepares a target only for a whole backup."""
    backup = verify(arguments.folder, digest=arguments.digest)
    refuse(backup.damaged, skip_damaged=arguments.skip_damaged)
    return {"digest": backup.digest}, True


async def _check(arguments: argparse.Namespace, engine: AsyncEngine, storage_url: str) -> Report:
    if arguments.heal and not arguments.hash:
        raise BackupError("--heal: expected --hash with it")
    source = await open_source(engine, storage_url)
    findings = await check(source, hashed=arguments.hash, rate=arguments.rate or None, heal=arguments.heal)
    return findings.record(), not findings.damaged


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m services.backup", description="Backup, restore and check.")
    commands = parser.add_subparsers(required=True)
    backup = commands.add_parser("backup")
    backup.set_defaults(work=_backup)
    backup.add_argument("folder", type=Path)
    backup.add_argument("--no-objects", action="store_true")
    backup.add_argument("--prune", action="store_true")
    for name, work in (("restore", _restore), ("verify", None)):
        restoring = commands.add_parser(name)
        restoring.set_defaults(work=work)
        restoring.add_argument("folder", type=Path)
        restoring.add_argument("--digest")
        restoring.add_argument("--skip-damaged", action="store_true")
    checking = commands.add_parser("check")
    checking.set_defaults(work=_check)
    checking.add_argument("--hash", action="store_true")
    checking.add_argument("--rate", type=int, default=0, help="bytes a second; 0 for no limit")
    checking.add_argument("--heal", action="store_true", help="with --hash")
    return parser


async def _run(settings: BackupSettings, work: Callable[[AsyncEngine, str], Awaitable[Report]]) -> Report:
    """Run the work; if the process is told to stop before it ends, cancel the work and exit."""

    async def with_engine() -> Report:
        engine = create_operator_engine(settings.database, "backup")
        try:
            return await work(engine, settings.storage_url)
        finally:
            await engine.dispose()

    return await lifecycle.run_until_stopped(with_engine(), settings.lifeline_fd)


def main() -> None:
    """Run the command that the arguments name."""
    arguments = _parser().parse_args()
    try:
        if arguments.work is None:
            # The verification needs neither a database nor a store.
            report, well = _verify(arguments)
        else:
            settings = BackupSettings()
            with redirect_stdout(sys.stderr):
                logs.configure("backup", level=settings.log_level, log_format=settings.log_format)
            report, well = asyncio.run(_run(settings, partial(arguments.work, arguments)))
    except (BackupError, ValueError) as error:
        sys.exit(f"towpath: {error}")
    except ServiceError as error:
        sys.exit(f"towpath: {error.message}")
    except DBAPIError as error:
        sys.exit(f"towpath: the database: {error.orig}")
    except (asyncpg.PostgresError, OSError) as error:
        # SQLAlchemy does not wrap the errors that asyncpg raises while it connects.
        sys.exit(f"towpath: {str(error) or type(error).__name__}")
    sys.stdout.write(json.dumps(report, indent=2, ensure_ascii=False) + "\n")
    sys.exit(not well)


if __name__ == "__main__":
    main()
