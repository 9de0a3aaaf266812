"""The commands `towpath object`: the objects that a repository holds or held."""

from typing import Annotated

import typer
from towpath.access.v1 import admin_service_pb2 as pb

from services.cli.admin.pagination import show_pages
from services.cli.admin.records import object_record
from services.cli.connection import Target
from services.cli.options import Data, Json, Repository, Server, Yes, confirm
from services.cli.output import show_record, show_removal

app = typer.Typer(help="List, remove and restore objects.", no_args_is_help=True)

Oid = Annotated[str, typer.Argument(metavar="OID", help="The object's id: 64 hexadecimal digits.", show_default=False)]


@app.command("list")
def list_objects(repository: Repository, data: Data = None, server: Server = None, as_json: Json = False) -> None:
    """List the objects of a repository by id, removed ones included."""
    show_pages(
        Target(data, server),
        lambda admin: admin.stub.ListRepositoryObjects,
        pb.ListRepositoryObjectsRequest(repository=repository),
        lambda page: map(object_record, page.objects),
        ("oid", "size", "created_at", "removed_at", "removal_reason"),
        as_json=as_json,
    )


@app.command("remove")
def remove_object(
    repository: Repository,
    oid: Oid,
    reason: Annotated[str, typer.Option(metavar="TEXT", help="Why; shown to those who ask for the object.")],
    yes: Yes = False,
    data: Data = None,
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
    repository: Repository, oid: Oid, data: Data = None, server: Server = None, as_json: Json = False
) -> None:
    """Let a removed object be uploaded again; this does not bring its bytes back."""
    request = pb.RestoreObjectRequest(repository=repository, oid=oid)
    Target(data, server).ask(lambda admin: admin.RestoreObject, request)
    show_record({"repository": repository, "oid": oid}, as_json=as_json)
