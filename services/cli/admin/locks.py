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
from services.cli.options import Data, Json, Repository, Server, Yes, confirm, parse_moment, parse_span
from services.cli.output import cell, show_record, show_records, show_removal

app = typer.Typer(help="List, add, remove and steal locks, and see who held them.", no_args_is_help=True)
app.command("watch")(watch_locks)

Path = Annotated[
    str | None, typer.Option("--path", metavar="PATH", help="Only those of exactly this path.", show_default=False)
]

Owner = Annotated[
    str, typer.Option("--user", metavar="USER", help="The owner; by default the administrator.", show_default=False)
]
Note = Annotated[str, typer.Option("--note", metavar="TEXT", help="A note for other users.", show_default=False)]
Ref = Annotated[
    str, typer.Option("--ref", metavar="REF", help="The ref whose lock space is meant.", show_default=False)
]
Atomic = Annotated[bool, typer.Option("--atomic", help="All of the paths, or none.")]
_COLUMNS = ("id", "owner", "locked_at", "path", "note", "space")


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
        _COLUMNS,
        as_json=as_json,
    )


@app.command("history")
def lock_history(
    repository: Repository,
    path: Path = None,
    user: Annotated[
        str | None, typer.Option("--user", metavar="USER", help="Only the locks of this user.", show_default=False)
    ] = None,
    since: Annotated[
        str | None,
        typer.Option("--since", metavar="TIME", help="Only those released since, such as 14d ago or 2026-01-31."),
    ] = None,
    until: Annotated[
        str | None, typer.Option("--until", metavar="TIME", help="Only those released before, in the same forms.")
    ] = None,
    data: Data = None,
    server: Server = None,
    as_json: Json = False,
) -> None:
    """List the locks that a repository has had, who released them and why, the latest released first."""
    now = datetime.now(UTC)
    request = pb.ListReleasedLocksRequest(
        repository=repository,
        path=path,
        owner_name=user,
        since=parse_moment(since, "--since", now),
        until=parse_moment(until, "--until", now),
    )
    show_pages(
        Target(data, server),
        lambda admin: admin.stub.ListReleasedLocks,
        request,
        lambda page: map(released_lock_record, page.locks),
        (
            "id",
            "owner",
            "locked_at",
            "released_at",
            "released_by",
            "forced",
            "path",
            "note",
            "space",
            "stolen",
            "reason",
        ),
        as_json=as_json,
    )


@app.command("add")
def add_locks(
    repository: Repository,
    paths: Annotated[list[str], typer.Argument(metavar="PATH...", help="The paths to lock.", show_default=False)],
    user: Owner = "",
    note: Note = "",
    ref: Ref = "",
    atomic: Atomic = False,
    data: Data = None,
    server: Server = None,
    as_json: Json = False,
) -> None:
    """Lock paths for a user. What the user has locked already stays, and counts as locked."""
    request = pb.LockPathsRequest(
        repository=repository, user_name=user, paths=paths, all_or_nothing=atomic, note=note, ref=ref
    )
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
    reason: Annotated[
        str, typer.Option("--reason", metavar="TEXT", help="A reason for the history.", show_default=False)
    ] = "",
    ref: Ref = "",
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
        request = pb.RemoveLockRequest(repository=repository, id=lock_id, reason=reason)
        lock = lock_record(target.ask(lambda admin: admin.RemoveLock, request).lock)
        show_removal(f"the lock {lock_id} of {lock['owner']} on {lock['path']}", lock, as_json=as_json)
        return
    if not mine:
        confirm(f"Remove the locks of {len(paths or ())} paths of {repository}, whoever holds them?", yes=yes)
    unlock = pb.UnlockPathsRequest(
        repository=repository, paths=paths, mine=mine, all_or_nothing=atomic, reason=reason, ref=ref
    )
    _show_outcome("unlocked", target.ask(lambda admin: admin.UnlockPaths, unlock), as_json=as_json)


@app.command("steal")
def steal_lock(
    repository: Repository,
    reason: Annotated[
        str, typer.Option("--reason", metavar="TEXT", help="The reason, for the history.", show_default=False)
    ],
    path: Annotated[str | None, typer.Argument(metavar="[PATH]", help="The locked path.", show_default=False)] = None,
    lock_id: Annotated[
        str | None, typer.Option("--id", metavar="ID", help="The lock with this id instead.", show_default=False)
    ] = None,
    user: Owner = "",
    note: Note = "",
    yes: Yes = False,
    data: Data = None,
    server: Server = None,
    as_json: Json = False,
) -> None:
    """Give a lock to another user in one step, whoever holds it."""
    if (lock_id is None) == (path is None):
        raise typer.BadParameter("give the path, or the id of one lock", param_hint="PATH")
    target = Target(data, server)
    if lock_id is None:
        listing = pb.ListRepositoryLocksRequest(repository=repository, path=path)
        standing = target.ask(lambda admin: admin.ListRepositoryLocks, listing).locks
        if len(standing) != 1:
            problem = "more than one lock stands on this path; give --id" if standing else "no lock stands on this path"
            raise CommandError(f"{cell(path)}: {problem}")
        lock_id = standing[0].id
    confirm(f"Give the lock {lock_id} of {repository} to {user or 'the administrator who calls'}?", yes=yes)
    request = pb.StealLockRequest(repository=repository, id=lock_id, user_name=user, reason=reason, note=note)
    answer = target.ask(lambda admin: admin.StealLock, request)
    previous = released_lock_record(answer.previous)
    show_record({**lock_record(answer.lock), "previous": previous}, as_json=as_json)


def _show_outcome(done: str, response: pb.LockPathsResponse | pb.UnlockPathsResponse, *, as_json: bool) -> None:
    """Print the locks that were created or removed. Raises `CommandError` that names each path which failed."""
    locks = list(map(lock_record, response.locks))
    failures = [{"path": failure.path, "reason": failure.message} for failure in response.failures]
    if as_json:
        show_record({"locks": locks, "failures": failures}, as_json=True)
    else:
        show_records(locks, _COLUMNS, as_json=False)
    if failures:
        problems = "".join(f"\n  {cell(failure['path'])}: {cell(failure['reason'])}" for failure in failures)
        raise CommandError(f"{done} {len(locks)} paths, and failed at {len(failures)}:{problems}")
