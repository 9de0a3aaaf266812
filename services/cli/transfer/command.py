"""The commands `towpath repo import` and `towpath repo export`: objects and locks from and to other places."""

import asyncio
import os
import sys
from collections.abc import Iterator
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from services.cli.options import Data, Json, Repository, Server, rate_option
from services.cli.output import cell, show_record
from services.cli.program import ProgramFailed, run_program
from services.common.sizes import decimal_size

_MODULE = "services.transfer"
# With fewer, a stream would be silent for longer than services allow.
_MIN_RATE = 100_000


class Locks(StrEnum):
    """The locks that an import takes over."""

    COPY = "copy"
    MIRROR = "mirror"
    NONE = "none"


Rate = Annotated[int, rate_option(shown_default="no limit")]
Jobs = Annotated[int, typer.Option("--jobs", min=1, max=32, help="How many objects move at once.")]


def import_repository(
    repository: Repository,
    source: Annotated[
        str,
        typer.Option(
            "--from",
            metavar="PLACE",
            help="The address that git-lfs has for the other server, a folder of objects, or a bucket such as "
            "s3://BUCKET/PREFIX?endpoint=URL.",
            show_default=False,
        ),
    ],
    git: Annotated[
        str | None,
        typer.Option(
            metavar="DIR_OR_URL",
            help="The git repository, whose refs tell which objects there are: a folder, or a URL that is cloned for "
            "a while. Needed with a server; of a folder or a bucket, all objects are imported without it.",
            show_default=False,
        ),
    ] = None,
    locks: Annotated[
        Locks,
        typer.Option(
            help="The locks of the other server: copy them, also release those that were copied before and stand there "
            "no more, or take none."
        ),
    ] = Locks.COPY,
    lock_list: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Locks from a file instead, as `git lfs locks --json` or an export has written it.",
            show_default=False,
        ),
    ] = None,
    map_owner: Annotated[
        list[str] | None,
        typer.Option(
            metavar="THEIRS=OURS",
            help="The user here who owns the locks of an owner there; to be given as often as needed. Without it, it "
            "is the user of the same name.",
            show_default=False,
        ),
    ] = None,
    owner_map: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Lines `THEIRS = OURS`, for the same.", show_default=False),
    ] = None,
    unmapped_owner: Annotated[
        str | None,
        typer.Option(metavar="USER", help="The user who owns the locks of all others.", show_default=False),
    ] = None,
    skip_unmapped: Annotated[bool, typer.Option("--skip-unmapped", help="Leave out the locks of all others.")] = False,
    rate: Rate = 0,
    jobs: Jobs = 8,
    data: Data = None,
    server: Server = None,
    as_json: Json = False,
) -> None:
    """Copy the objects that a repository lacks, and locks, from another server, a folder or a bucket.

    What is there already is not copied, so that the command can be repeated until people switch over, and goes on
    where it was interrupted. Every object is verified. The exit status is 1 if something is missing or wrong there, or
    a path is locked here by somebody else.
    """
    if unmapped_owner is not None and skip_unmapped:
        raise typer.BadParameter("expected one of --unmapped-owner and --skip-unmapped", param_hint="--skip-unmapped")
    arguments = ["import", f"--from={source}", f"--locks={locks}"]
    arguments += [f"--git={_git(git)}"] if git is not None else []
    arguments += [f"--lock-list={lock_list.resolve()}"] if lock_list is not None else []
    arguments += [f"--owner-map={owner_map.resolve()}"] if owner_map is not None else []
    arguments += [f"--unmapped-owner={unmapped_owner}"] if unmapped_owner is not None else []
    arguments += ["--skip-unmapped"] if skip_unmapped else []
    for theirs, ours in _pairs(map_owner or []):
        arguments.append(f"--owner={theirs}={ours}")
    _run([*arguments, *_common(rate, jobs, data, server)], repository, as_json=as_json)


def export_repository(
    repository: Repository,
    target: Annotated[
        str,
        typer.Option(
            "--to",
            metavar="PLACE",
            help="A folder, which gets objects as git-lfs keeps them below .git/lfs/objects; a bucket such as "
            "s3://BUCKET/PREFIX?endpoint=URL; or the address that git-lfs has for another server.",
            show_default=False,
        ),
    ],
    locks: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Also write the locks, as `git lfs locks --json` does.", show_default=False),
    ] = None,
    rate: Rate = 0,
    jobs: Jobs = 8,
    data: Data = None,
    server: Server = None,
    as_json: Json = False,
) -> None:
    """Copy all objects of a repository to a folder, a bucket or another server that lacks them.

    The command can be repeated, and goes on where it was interrupted. Every object is verified. The exit status is 1 if
    an object cannot be copied.
    """
    arguments = ["export", f"--to={target}"]
    arguments += [f"--locks={locks.resolve()}"] if locks is not None else []
    _run([*arguments, *_common(rate, jobs, data, server)], repository, as_json=as_json)


def _git(text: str) -> str:
    return str(Path(text).resolve()) if Path(text).is_dir() else text


def _pairs(texts: list[str]) -> Iterator[tuple[str, str]]:
    for text in texts:
        theirs, _, ours = (part.strip() for part in text.rpartition("="))
        if not (theirs and ours):
            raise typer.BadParameter(f"expected THEIRS=OURS, got {text!r}", param_hint="--map-owner")
        yield theirs, ours


def _common(rate: int, jobs: int, data: Path | None, server: str | None) -> list[str]:
    if 0 < rate < _MIN_RATE:
        raise typer.BadParameter(f"expected at least {decimal_size(_MIN_RATE)}", param_hint="--rate")
    arguments = [f"--rate={rate}", f"--jobs={jobs}"]
    arguments += [f"--data={data}"] if data is not None else []
    return arguments + ([f"--server={server}"] if server is not None else [])


def _run(arguments: list[str], repository: str, *, as_json: bool) -> None:
    """Run the program, print its report, and exit."""
    try:
        outcome = asyncio.run(run_program([*arguments, "--", repository], os.environ, module=_MODULE))
    except ProgramFailed:
        sys.exit(1)
    report = dict(outcome.report)
    if as_json:
        show_record(report, as_json=True)
    else:
        problems = report.pop("problems")
        conflicts = report.get("locks", {}).pop("conflicts", [])
        locks = {f"locks_{name}": value for name, value in report.pop("locks", {}).items()}
        show_record({**report, **locks}, as_json=False)
        for problem in problems:
            typer.echo(f"{problem['kind']}: {problem['oid']}: {cell(problem['problem'])}")
        for conflict in conflicts:
            typer.echo(f"conflict: {cell(conflict['path'])}: {cell(conflict['reason'])}")
    raise typer.Exit(0 if outcome.well else 1)
