"""The commands `towpath lock`: the current and the released locks of a repository."""

from datetime import UTC, datetime
from typing import Annotated

import typer
from towpath.access.v1 import admin_service_pb2 as pb

from services.cli.admin.pagination import show_pages
from services.cli.admin.records import lock_record, released_lock_record
from services.cli.admin.watch_locks import watch_locks
from services.cli.connection import Target
from services.cli.errors import CommandError
from services.cli.options import Data, Json, Repository, Server, Yes, confirm, parse_span
from services.cli.output import cell, show_record, show_records, show_removal

app = typer.Typer(help="List, add and remove locks, and see who held them.", no_args_is_help=True)
app.command("watch")(watch_locks)

Path = Annotated[
    str | None, typer.Option("--path", metavar="PATH", help="Only those of exactly this path.", show_default=False)
]

Atomic = Annotated[bool, typer.Option("--atomic", help="All of the paths, or none.")]


@app.command("list")
def list_locks(
    repository: Repository,
    path: Path = None,
    under: Annotated[
        str | None, typer.Option("--under", metavar="FOLDER", help="Only those below this folder.", show_default=False)
    ] = None,
    owner: Annotated[
        str | None, typer.Option("--owner", metavar="USER", help="Only those of this user.", show_default=False)
    ] = None,
    older_than: Annotated[
        str | None,
        typer.Option("--older-than", metavar="TIME", help="Only those older than this, such as 14d or 12h."),
    ] = None,
    data: Data = None,
    server: Server = None,
    as_json: Json = False,
) -> None:
    """List the locks of a repository, oldest first, or with --under by path."""
    request = pb.ListRepositoryLocksRequest(repository=repository, path=path, owner_name=owner)
    if under is not None:
        request.path_prefix = f"{under.rstrip('/')}/"
    if older_than is not None:
        span = parse_span(older_than)
        if span is None:
            raise typer.BadParameter(f"expected such as 12h, 14d or 4w, got {older_than!r}", param_hint="--older-than")
        request.locked_before.FromDatetime(datetime.now(UTC) - span)
    show_pages(
        Target(data, server),
        lambda admin: admin.stub.ListRepositoryLocks,
        request,
        lambda page: map(lock_record, page.locks),
        ("id", "owner", "locked_at", "path"),
        as_json=as_json,
    )


@app.command("history")
def lock_history(
    repository: Repository, path: Path = None, data: Data = None, server: Server = None, as_json: Json = False
) -> None:
    """List the locks that a repository has had and who released them, the latest released first."""
    show_pages(
        Target(data, server),
        lambda admin: admin.stub.ListReleasedLocks,
        pb.ListReleasedLocksRequest(repository=repository, path=path),
        lambda page: map(released_lock_record, page.locks),
        ("id", "owner", "locked_at", "released_at", "released_by", "forced", "path"),
        as_json=as_json,
    )


@app.command("add")
def add_locks(
    repository: Repository,
    paths: Annotated[list[str], typer.Argument(metavar="PATH...", help="The paths to lock.", show_default=False)],
    user: Annotated[
        str, typer.Option("--user", metavar="USER", help="The owner; by default the administrator.", show_default=False)
    ] = "",
    atomic: Atomic = False,
    data: Data = None,
    server: Server = None,
    as_json: Json = False,
) -> None:
    """Lock paths for a user. What the user has locked already stays, and counts as locked."""
    request = pb.LockPathsRequest(repository=repository, user_name=user, paths=paths, all_or_nothing=atomic)
    response = Target(data, server).ask(lambda admin: admin.LockPaths, request)
    _show_outcome("locked", response, as_json=as_json)


@app.command("remove")
def remove_locks(
    repository: Repository,
    paths: Annotated[
        list[str] | None, typer.Argument(metavar="[PATH...]", help="The locked paths.", show_default=False)
    ] = None,
    lock_id: Annotated[
        str | None, typer.Option("--id", metavar="ID", help="The lock with this id instead.", show_default=False)
    ] = None,
    mine: Annotated[bool, typer.Option("--mine", help="Only locks of the administrator who calls.")] = False,
    atomic: Atomic = False,
    yes: Yes = False,
    data: Data = None,
    server: Server = None,
    as_json: Json = False,
) -> None:
    """Remove the locks of paths, whoever holds them."""
    if (lock_id is None) == (not paths):
        raise typer.BadParameter("give the paths, or the id of one lock", param_hint="PATH...")
    target = Target(data, server)
    if lock_id is not None:
        confirm(f"Remove the lock {lock_id} of {repository}, whoever holds it?", yes=yes)
        request = pb.RemoveLockRequest(repository=repository, id=lock_id)
        lock = lock_record(target.ask(lambda admin: admin.RemoveLock, request).lock)
        show_removal(f"the lock {lock_id} of {lock['owner']} on {lock['path']}", lock, as_json=as_json)
        return
    if not mine:
        confirm(f"Remove the locks of {len(paths or ())} paths of {repository}, whoever holds them?", yes=yes)
    unlock = pb.UnlockPathsRequest(repository=repository, paths=paths, mine=mine, all_or_nothing=atomic)
    _show_outcome("unlocked", target.ask(lambda admin: admin.UnlockPaths, unlock), as_json=as_json)


def _show_outcome(done: str, response: pb.LockPathsResponse | pb.UnlockPathsResponse, *, as_json: bool) -> None:
    """Print the locks that were created or removed. Raises `CommandError` that names each path which failed."""
    locks = list(map(lock_record, response.locks))
    failures = [{"path": failure.path, "reason": failure.message} for failure in response.failures]
    if as_json:
        show_record({"locks": locks, "failures": failures}, as_json=True)
    else:
        show_records(locks, ("id", "owner", "locked_at", "path"), as_json=False)
    if failures:
        problems = "".join(f"\n  {cell(failure['path'])}: {cell(failure['reason'])}" for failure in failures)
        raise CommandError(f"{done} {len(locks)} paths, and failed at {len(failures)}:{problems}")
