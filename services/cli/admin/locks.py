"""The commands `towpath lock`: the current and the released locks of a repository."""

from typing import Annotated

import typer
from towpath.access.v1 import admin_service_pb2 as pb

from services.cli.admin.pagination import PAGE, follow
from services.cli.admin.records import lock_record, released_lock_record
from services.cli.confirmation import Yes, confirm
from services.cli.connection import Administration, Target
from services.cli.options import DEFAULT_DATA, Data, Json, Repository, Server
from services.cli.output import show_pages, show_removal

app = typer.Typer(help="List and remove locks, and see who held them.", no_args_is_help=True)

Path = Annotated[
    str | None, typer.Option("--path", metavar="PATH", help="Only those of exactly this path.", show_default=False)
]


@app.command("list")
def list_locks(
    repository: Repository,
    path: Path = None,
    data: Data = DEFAULT_DATA,
    server: Server = None,
    as_json: Json = False,
) -> None:
    """List the locks of a repository, oldest first."""
    request = pb.ListRepositoryLocksRequest(repository=repository, path=path, limit=PAGE)

    async def show(admin: Administration) -> None:
        pages = follow(
            admin, admin.stub.ListRepositoryLocks, request, lambda response: map(lock_record, response.locks)
        )
        await show_pages(pages, ("id", "owner", "locked_at", "path"), as_json=as_json)

    Target(data, server).run(show)


@app.command("history")
def lock_history(
    repository: Repository,
    path: Path = None,
    data: Data = DEFAULT_DATA,
    server: Server = None,
    as_json: Json = False,
) -> None:
    """List the locks that a repository has had and who released them, the latest released first."""
    request = pb.ListReleasedLocksRequest(repository=repository, path=path, limit=PAGE)
    columns = ("id", "owner", "locked_at", "released_at", "released_by", "forced", "path")

    async def show(admin: Administration) -> None:
        pages = follow(
            admin, admin.stub.ListReleasedLocks, request, lambda response: map(released_lock_record, response.locks)
        )
        await show_pages(pages, columns, as_json=as_json)

    Target(data, server).run(show)


@app.command("remove")
def remove_lock(
    repository: Repository,
    lock_id: Annotated[str, typer.Argument(metavar="ID", help="The lock's id.", show_default=False)],
    yes: Yes = False,
    data: Data = DEFAULT_DATA,
    server: Server = None,
    as_json: Json = False,
) -> None:
    """Remove a lock, whoever holds it."""
    confirm(f"Remove the lock {lock_id} of {repository}, whoever holds it?", yes=yes)
    request = pb.RemoveLockRequest(repository=repository, id=lock_id)
    response = Target(data, server).ask(lambda admin: admin.RemoveLock, request)
    lock = lock_record(response.lock)
    show_removal(f"the lock {lock_id} of {lock['owner']} on {lock['path']}", lock, as_json=as_json)
