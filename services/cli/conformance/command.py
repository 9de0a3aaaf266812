"""The command `towpath conformance`: a self-test of any server, row by row of the interface."""

import asyncio
import signal
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated
from urllib.parse import urlsplit

import typer
from pydantic import SecretStr

from services.cli.conformance.passwords import find_password
from services.cli.errors import CommandError
from services.cli.options import Yes, confirm
from services.cli.output import cell, show_record, show_records
from services.cli.settings import CommandSettings

if TYPE_CHECKING:
    from services.conformance.case import Case
    from services.conformance.report import Report
    from services.conformance.runner import Target

_MAX_SECONDS = 600.0
_STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM)
_WARNING = (
    "The test leaves a few small objects in the repository at {url}, and makes and removes locks there. "
    "It is meant for a repository that nobody works in. Go on?"
)


class DialectName(StrEnum):
    """A dialect of the interface."""

    NEUTRAL = "neutral"
    GIT_LFS = "git-lfs"


class Format(StrEnum):
    """The form of the output."""

    TABLE = "table"
    JSON = "json"


def conformance(
    url: Annotated[
        str | None,
        typer.Argument(
            metavar="URL",
            help="The base address of a repository that is there for the test alone, such as "
            "https://lfs.example.org/test/conformance.",
            show_default=False,
        ),
    ] = None,
    user: Annotated[
        str | None,
        typer.Option(
            metavar="USER",
            help="A user who may read and write. The password or token is read from TOWPATH_CONFORMANCE_PASSWORD or "
            "from git's credential helpers, or asked for.",
            show_default=False,
        ),
    ] = None,
    second_user: Annotated[
        str | None,
        typer.Option(
            metavar="USER",
            help="Another user who may read and write, for locks of others; the password likewise, or from "
            "TOWPATH_CONFORMANCE_SECOND_PASSWORD.",
            show_default=False,
        ),
    ] = None,
    ref: Annotated[
        str | None,
        typer.Option(metavar="REF", help="The ref that requests name, where users may not write every ref."),
    ] = None,
    dialect: Annotated[
        DialectName, typer.Option(help="The media type and the challenge: those of git-lfs, or the neutral ones.")
    ] = DialectName.GIT_LFS,
    only: Annotated[
        list[str] | None,
        typer.Option(metavar="GLOB", help="Run the cases whose id matches, such as 'lock_*'; may be repeated."),
    ] = None,
    timeout: Annotated[float, typer.Option(metavar="SECONDS", help="The most seconds that one case may take.")] = 30.0,
    format_: Annotated[Format, typer.Option("--format", help="A table, or JSON.")] = Format.TABLE,
    junit: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write the results as JUnit XML as well.", show_default=False)
    ] = None,
    list_: Annotated[bool, typer.Option("--list", help="List the cases, and ask no server.")] = False,
    yes: Yes = False,
) -> None:
    """Test a server, Towpath or another, against the interface, row by row.

    The exit status is 0 if every case passed or was skipped, 1 for findings, and 2 if the server cannot be tested with
    these options. The test removes the locks that it makes, and touches no others; the objects that it uploads stay,
    because the interface has no way to remove them.
    """
    # Import it here: its HTTP library is slow to import, and other commands do not need it.
    from services.conformance.catalog import select

    as_json = format_ is Format.JSON
    cases = select(only or [])
    if not cases:
        raise typer.BadParameter("expected a pattern that matches a case; --list shows them", param_hint="--only")
    if list_:
        show_records(map(_listed, cases), ("case", "level", "section", "row", "title"), as_json=as_json)
        return
    if not 0 < timeout <= _MAX_SECONDS:
        raise typer.BadParameter(f"expected more than 0 and at most {_MAX_SECONDS:g}", param_hint="--timeout")
    if second_user is not None and user is None:
        raise typer.BadParameter("expected --user with it", param_hint="--second-user")
    if user is not None and user == second_user:
        raise typer.BadParameter("expected another user than --user", param_hint="--second-user")
    base_url = _base_url(url)
    confirm(_WARNING.format(url=base_url), yes=yes)
    target = _target(base_url, dialect, user, second_user, ref)
    report = asyncio.run(_run(target, cases, timeout, shows_progress=not as_json))
    if junit is not None:
        junit.write_bytes(report.junit())
    _show(report, as_json=as_json)
    if not report.is_clean:
        raise typer.Exit(1)


def _listed(case: "Case") -> dict[str, str]:
    return {
        "case": case.id,
        "level": case.level.value,
        "section": case.section,
        "row": case.row,
        "title": case.title,
    }


def _base_url(url: str | None) -> str:
    """Return the base address without a slash at its end. Raises typer's usage error."""
    try:
        parts = urlsplit(url or "")
        is_address = parts.scheme in ("http", "https") and parts.hostname and not (parts.query or parts.fragment)
    except ValueError:
        is_address = False
    if not is_address or url is None:
        raise typer.BadParameter("expected the base address of a repository, of http or https", param_hint="URL")
    if "@" in parts.netloc:
        raise typer.BadParameter("expected no user or password in it; see --user", param_hint="URL")
    return url.rstrip("/")


def _target(url: str, dialect: DialectName, user: str | None, second_user: str | None, ref: str | None) -> "Target":
    from services.conformance.client import Credentials
    from services.conformance.dialects import DIALECTS
    from services.conformance.runner import Target

    settings = CommandSettings.read()

    def credentials(name: str | None, given: SecretStr | None, option: str) -> Credentials | None:
        try:
            return None if name is None else Credentials(name, find_password(url, name, given))
        except CommandError as error:
            raise typer.BadParameter(str(error), param_hint=option) from error

    (chosen,) = (known for known in DIALECTS if known.name == dialect.value)
    first = credentials(user, settings.conformance_password, "--user")
    second = credentials(second_user, settings.conformance_second_password, "--second-user")
    return Target(url, chosen, first, second, ref)


async def _run(target: "Target", cases: list["Case"], seconds: float, *, shows_progress: bool) -> "Report":
    """Run the cases. SIGINT and SIGTERM stop the run, which then removes its locks all the same."""
    from services.conformance.report import Result
    from services.conformance.runner import NotUsable, run

    task = asyncio.current_task()
    assert task is not None  # noqa: S101 - for mypy: a coroutine runs in a task
    loop = asyncio.get_running_loop()

    def stop() -> None:
        task.cancel()
        # A second signal must not cut short the removal of locks, which is bounded.
        for number in _STOP_SIGNALS:
            loop.add_signal_handler(number, lambda: None)

    for number in _STOP_SIGNALS:
        loop.add_signal_handler(number, stop)

    def progress(result: Result) -> None:
        if shows_progress and result.message:
            typer.echo(f"{result.outcome.value}: {result.case.id}: {cell(result.message)}", err=True)

    try:
        return await run(target, cases, seconds=seconds, on_result=progress)
    except NotUsable as error:
        raise typer.BadParameter(str(error), param_hint="URL") from error


def _show(report: "Report", *, as_json: bool) -> None:
    record = report.record()
    if as_json:
        show_record(record, as_json=True)
        return
    show_records(record["cases"], ("result", "level", "case", "message"), as_json=False)
    for result in record["cases"]:
        if result["result"] in ("failed", "blocked"):
            typer.echo(f"\n{result['case']}: {result['title']}.")
            typer.echo(f"  {result['section']}: {result['row']}")
            typer.echo(f"  {cell(result['message'])}")
            if "exchange" in result:
                typer.echo(f"  {cell(result['exchange'])}")
    counts = ", ".join(f"{count} {name}" for name, count in report.counts.items())
    left = record["left"]
    typer.echo(f"\n{counts}{'; stopped before the end' if report.is_stopped else ''}.")
    typer.echo(f"{left['object_count']} objects with {left['object_bytes']} bytes stay in the repository.")
    for path in left["locks"]:
        typer.echo(f"A lock could not be removed: {cell(path)}")
