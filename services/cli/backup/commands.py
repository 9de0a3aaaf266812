"""The commands `towpath backup`, `towpath restore` and `towpath check`, as the operator types them."""

import asyncio
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from services.cli.backup.installation import run_on_data, run_on_environment
from services.cli.backup.program import Outcome, ProgramFailed
from services.cli.options import DEFAULT_DATA, Json
from services.cli.output import cell, show_record

_MEBIBYTE = 1024 * 1024

Data = Annotated[
    Path | None,
    typer.Option(
        metavar="DIR",
        envvar="TOWPATH_DATA",
        help="The data folder of a `towpath up` on this host, running or not; by default what TOWPATH_STORAGE_URL and "
        f"TOWPATH_STORAGE_DATABASE_URL name where they are set, else ./{DEFAULT_DATA}.",
    ),
]


def backup(
    target: Annotated[
        Path, typer.Argument(metavar="FOLDER", help="Where the backup goes; one that is there is brought up to date.")
    ],
    data: Data = None,
    no_objects: Annotated[
        bool, typer.Option("--no-objects", help="Leave out the bytes, where they are saved by other means.")
    ] = False,
    prune: Annotated[
        bool, typer.Option("--prune", help="Remove the bytes that only earlier backups in the folder needed.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Copy all tables and objects into a folder, as they are at one moment; nothing waits for it.

    What the folder has of an earlier backup is not copied again, and counts until the new one is whole. The exit
    status is 1 where objects are lost. The folder holds every object: keep it as safe as they are.
    """
    options = [name for name, wanted in (("--no-objects", no_objects), ("--prune", prune)) if wanted]
    outcome = _run(data, ["backup", str(target.resolve()), *options])
    _show(outcome, ("lost",), as_json=as_json)


def restore(
    source: Annotated[Path, typer.Argument(metavar="FOLDER", help="The backup.")],
    data: Data = None,
    digest: Annotated[
        str | None, typer.Option(metavar="HEX", help="What the backup's digest must be, as `backup` printed it.")
    ] = None,
    skip_damaged: Annotated[
        bool, typer.Option("--skip-damaged", help="Restore as missing the objects whose bytes the backup has not.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Restore a backup into an empty database and storage, and check it.

    Every part is verified; what is missing or not what was written is named, and the whole refused. An interrupted
    restore is gone on with by the same command; until then nothing starts on it.
    """
    options = ["--skip-damaged"] if skip_damaged else []
    if digest is not None:
        options.append(f"--digest={digest}")
    outcome = _run(data, ["restore", str(source.resolve()), *options], new=True)
    report = dict(outcome.report)
    found = report.pop("check")
    if as_json:
        _show(outcome, (), as_json=True)
    _show(Outcome({**report, "missing": found["missing"], "corrupt": found["corrupt"]}, outcome.well), ("skipped",))


def check(
    data: Data = None,
    hashed: Annotated[bool, typer.Option("--hash", help="Read every object and compare its SHA-256.")] = False,
    rate: Annotated[
        int, typer.Option(metavar="MIB", min=0, help="With --hash, the most MiB a second; 0 for no limit.")
    ] = 100,
    as_json: Json = False,
) -> None:
    """Compare the index of objects with the bytes that are there; services may run meanwhile.

    The exit status is 1 where objects are missing or corrupt. Orphaned ones, which no repository holds, do no harm.
    """
    options = ["--hash", f"--rate={rate * _MEBIBYTE}"] if hashed else []
    _show(_run(data, ["check", *options]), ("findings",), as_json=as_json)


def _run(data: Path | None, arguments: list[str], *, new: bool = False) -> Outcome:
    try:
        if data is None and os.environ.get("TOWPATH_STORAGE_DATABASE_URL"):
            return asyncio.run(run_on_environment(arguments))
        return asyncio.run(run_on_data((data or DEFAULT_DATA).resolve(), arguments, new=new))
    except ProgramFailed:
        sys.exit(1)


def _show(outcome: Outcome, lists: Sequence[str], *, as_json: bool = False) -> None:
    """Print the report, the entries of its `lists` a line each, and exit."""
    if as_json:
        show_record(outcome.report, as_json=True)
    else:
        show_record({name: value for name, value in outcome.report.items() if name not in lists}, as_json=False)
        for name in lists:
            for entry in outcome.report[name]:
                typer.echo(_line(name, entry))
    raise typer.Exit(0 if outcome.well else 1)


def _line(kind: str, entry: Mapping[str, Any]) -> str:
    said = f"{entry.get('kind', kind)}: {entry['oid']}: {entry['problem']}"
    return f"{said} ({cell(entry['repositories'])})" if "repositories" in entry else said
