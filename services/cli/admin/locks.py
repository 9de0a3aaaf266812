"""The commands `towpath lock`: the current and the released locks of a repository."""

from typing import Annotated

import typer
from towpath.access.v1 import admin_service_pb2 as pb

from services.cli.admin.pagination import show_pages
from services.cli.admin.records import lock_record, released_lock_record
from services.cli.connection import Target
from services.cli.options import Data, Json, Repository, Server, Yes, confirm
from services.cli.output import show_removal

app = typer.Typer(help="List and remove locks, and see who held them.", no_args_is_help=True)

Path = Annotated[
    str | None, typer.Option("--path", metavar="PATH", help="Only those of exactly this path.", show_default=False)
]


@app.command("list")
def list_locks(
    repository: Repository, path: Path = None, data: Data = None, server: Server = None, as_json: Json = False
) -> None:
    """List the locks of a repository, oldest first."""
    show_pages(
        Target(data, server),
        lambda admin: admin.stub.ListRepositoryLocks,
        pb.ListRepositoryLocksRequest(repository=repository, path=path),
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


@app.command("remove")
def remove_lock(
    repository: Repository,
    lock_id: Annotated[str, typer.Argument(metavar="ID", help="The lock's id.", show_default=False)],
    yes: Yes = False,
    data: Data = None,
    server: Server = None,
    as_json: Json = False,
) -> None:
    """Remove a lock, whoever holds it."""
    confirm(f"Remove the lock {lock_id} of {repository}, whoever holds it?", yes=yes)
    request = pb.RemoveLockRequest(repository=repository, id=lock_id)
    response = Target(data, server).ask(lambda admin: admin.RemoveLock, request)
    lock = lock_record(response.lock)
    show_removal(f"the lock {lock_id} of {lock['owner']} on {lock['path']}", lock, as_json=as_json)
