"""The commands `towpath backup` and `towpath restore`, and the check of the objects in `towpath check`.

The commands work on a data folder of this host, whether `towpath up` runs on it or not. If no data folder is named and
TOWPATH_STORAGE_DATABASE_URL is set, they work on that database and on the store of TOWPATH_STORAGE_URL.
"""

import asyncio
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from services.cli.backup.installation import enter_account, run_as_account, run_on_data
from services.cli.options import Data, Json
from services.cli.output import cell, show_record
from services.cli.program import Outcome, ProgramFailed, run_program
from services.cli.settings import CommandSettings
from services.cli.unprivileged.entry import Inherited


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
    storage: Annotated[
        str | None,
        typer.Option(metavar="URL", help="Where the bytes of a new data folder go, as `towpath up --storage` has it."),
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
    outcome = _run(data, ["restore", str(source.resolve()), *options], new=True, storage=storage)
    report = dict(outcome.report)
    found = report.pop("check")
    if as_json:
        _show(outcome, (), as_json=True)
    _show(Outcome({**report, "missing": found["missing"], "corrupt": found["corrupt"]}, outcome.well), ("skipped",))


def check(data: Path | None, *, hashed: bool, heal: bool, rate: int, as_json: bool) -> None:
    """Compare the index with the blobs and print the findings; with `hashed`, read at most `rate` bytes a second.

    With `heal`, which needs `hashed`, the services copy a damaged blob again from a store in which it is intact, or
    request the object from clients if no store has it.
    """
    options = ["--hash", f"--rate={rate}"] if hashed else []
    if heal:
        options.append("--heal")
    _show(_run(data, ["check", *options]), ("findings",), as_json=as_json)


def _run(data: Path | None, arguments: list[str], *, new: bool = False, storage: str | None = None) -> Outcome:
    try:
        settings = CommandSettings.read()
        if data is None and "data" not in settings.model_fields_set and os.environ.get("TOWPATH_STORAGE_DATABASE_URL"):
            if storage is not None:
                raise typer.BadParameter("TOWPATH_STORAGE_URL says where the bytes go", param_hint="--storage")
            return asyncio.run(run_program(arguments, os.environ))
        if (inherited := Inherited.take()) is not None:
            return asyncio.run(run_as_account(inherited, arguments))
        folder = (data or settings.data).resolve()
        if arguments[0] == "check":
            enter_account(folder, settings.user)
        return asyncio.run(run_on_data(folder, arguments, new=new, storage=storage, user=settings.user))
    except ProgramFailed:
        sys.exit(1)


def _show(outcome: Outcome, lists: Sequence[str], *, as_json: bool = False) -> None:
    """Print the report, with one line per entry of its `lists`, and exit."""
    if as_json:
        show_record(outcome.report, as_json=True)
    else:
        show_record({name: value for name, value in outcome.report.items() if name not in lists}, as_json=False)
        for name in lists:
            for entry in outcome.report[name]:
                typer.echo(_line(name, entry))
    raise typer.Exit(0 if outcome.well else 1)


def _line(kind: str, entry: Mapping[str, Any]) -> str:
    where = f"{entry['store']}: " if "store" in entry else ""
    said = f"{entry.get('kind', kind)}: {where}{entry.get('name') or entry['oid']}: {entry['problem']}"
    return f"{said} ({cell(entry['repositories'])})" if "repositories" in entry else said
