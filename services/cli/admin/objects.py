"""The commands `towpath object`: the objects that a repository holds or held."""

from typing import Annotated

import typer
from towpath.access.v1 import admin_service_pb2 as pb

from services.cli.admin.pagination import PAGE, follow
from services.cli.admin.records import object_record
from services.cli.confirmation import Yes, confirm
from services.cli.connection import Administration, Target
from services.cli.options import DEFAULT_DATA, Data, Json, Repository, Server
from services.cli.output import show_pages, show_record, show_removal

app = typer.Typer(help="List, remove and restore objects.", no_args_is_help=True)

Oid = Annotated[str, typer.Argument(metavar="OID", help="The object's id: 64 hexadecimal digits.", show_default=False)]


@app.command("list")
def list_objects(
    repository: Repository, data: Data = DEFAULT_DATA, server: Server = None, as_json: Json = False
) -> None:
    """List the objects of a repository by id, removed ones included."""
    request = pb.ListRepositoryObjectsRequest(repository=repository, limit=PAGE)

    async def show(admin: Administration) -> None:
        pages = follow(
            admin, admin.stub.ListRepositoryObjects, request, lambda response: map(object_record, response.objects)
        )
        await show_pages(pages, ("oid", "size", "created_at", "removed_at", "removal_reason"), as_json=as_json)

    Target(data, server).run(show)


@app.command("remove")
def remove_object(
    repository: Repository,
    oid: Oid,
    reason: Annotated[str, typer.Option(metavar="TEXT", help="Why; shown to those who ask for the object.")],
    yes: Yes = False,
    data: Data = DEFAULT_DATA,
    server: Server = None,
    as_json: Json = False,
) -> None:
    """Remove an object from a repository; it cannot be uploaded again until it is restored."""
    confirm(f"Remove the object {oid} from {repository}?", yes=yes)
    request = pb.RemoveObjectRequest(repository=repository, oid=oid, reason=reason)
    response = Target(data, server).ask(lambda admin: admin.RemoveObject, request)
    show_removal(f"the object {oid} from {repository}", object_record(response.object), as_json=as_json)


@app.command("restore")
def restore_object(
    repository: Repository, oid: Oid, data: Data = DEFAULT_DATA, server: Server = None, as_json: Json = False
) -> None:
    """Let a removed object be uploaded again; this does not bring its bytes back."""
    request = pb.RestoreObjectRequest(repository=repository, oid=oid)
    Target(data, server).ask(lambda admin: admin.RestoreObject, request)
    show_record({"repository": repository, "oid": oid}, as_json=as_json)
