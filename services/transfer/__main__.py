"""The transfer of repositories: `python -m services.transfer import|export`.

The standard output gets one JSON document, the standard error everything else. The exit status is 1 if the command
failed, or something is missing, wrong or in conflict.
"""

import gc

gc.disable()  # Imports make many objects and hardly any garbage: looking for it is a fifth of the start.

import argparse
import json
import os
import sys
from collections.abc import Awaitable, Callable
from contextlib import redirect_stdout
from functools import partial
from pathlib import Path

from services.cli.connection import Administration, Target
from services.cli.errors import CommandError
from services.cli.user_map import read_user_map
from services.common import lifecycle
from services.common.errors import ServiceError
from services.common.observability import logs
from services.transfer.exporting import Export, export_repository
from services.transfer.importing import Import, Pace, Report, import_repository
from services.transfer.locks import Mode, Owners

gc.enable()


def _import(arguments: argparse.Namespace) -> Callable[[Administration], Awaitable[Report]]:
    names = {} if arguments.owner_map is None else read_user_map(arguments.owner_map)
    for pair in arguments.owner:
        theirs, _, ours = pair.rpartition("=")
        names[theirs] = ours
    asked = Import(
        repository=arguments.repository,
        source=arguments.source,
        git=arguments.git,
        mode=Mode(arguments.locks),
        lock_list=arguments.lock_list,
        owners=Owners(names, arguments.unmapped_owner, skip=arguments.skip_unmapped),
        pace=Pace(arguments.jobs, arguments.rate),
    )
    return partial(import_repository, asked=asked)


def _export(arguments: argparse.Namespace) -> Callable[[Administration], Awaitable[Report]]:
    asked = Export(
        repository=arguments.repository,
        target=arguments.target,
        lock_list=arguments.locks,
        pace=Pace(arguments.jobs, arguments.rate),
    )
    return partial(export_repository, asked=asked)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m services.transfer", description="Import and export.")
    commands = parser.add_subparsers(required=True)
    importing = commands.add_parser("import")
    importing.set_defaults(work=_import)
    importing.add_argument("--from", dest="source", required=True)
    importing.add_argument("--git")
    importing.add_argument("--locks", choices=list(map(str, Mode)), required=True)
    importing.add_argument("--lock-list", type=Path)
    importing.add_argument("--owner", action="append", default=[], help="THEIRS=OURS")
    importing.add_argument("--owner-map", type=Path)
    importing.add_argument("--unmapped-owner")
    importing.add_argument("--skip-unmapped", action="store_true")
    exporting = commands.add_parser("export")
    exporting.set_defaults(work=_export)
    exporting.add_argument("--to", dest="target", required=True)
    exporting.add_argument("--locks", type=Path)
    for command in (importing, exporting):
        command.add_argument("repository")
        command.add_argument("--data", type=Path)
        command.add_argument("--server")
        command.add_argument("--rate", type=int, required=True, help="bytes a second; 0 for no limit")
        command.add_argument("--jobs", type=int, required=True)
    return parser


async def _until_stopped(admin: Administration, work: Callable[[Administration], Awaitable[Report]]) -> Report:
    """Do the work; if the process is told to stop before its end, cancel it and exit."""
    lifeline = os.environ.get("TOWPATH_LIFELINE_FD")

    async def worked() -> Report:
        return await work(admin)

    return await lifecycle.run_until_stopped(worked(), int(lifeline) if lifeline else None)


def main() -> None:
    """Run the command that the arguments name."""
    arguments = _parser().parse_args()
    with redirect_stdout(sys.stderr):
        # What the backends of buckets log is told by the errors as well.
        logs.configure("transfer", level="ERROR", log_format=logs.LogFormat.TEXT)
    try:
        work = arguments.work(arguments)
        report, is_well = Target(arguments.data, arguments.server).run(partial(_until_stopped, work=work))
    except CommandError as error:
        sys.exit(f"towpath: {error}")
    except ServiceError as error:
        sys.exit(f"towpath: {error.message}")
    except OSError as error:
        sys.exit(f"towpath: {str(error) or type(error).__name__}")
    sys.stdout.write(json.dumps(report, indent=2, ensure_ascii=False) + "\n")
    sys.exit(not is_well)


if __name__ == "__main__":
    main()
