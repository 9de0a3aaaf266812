"""The commands `towpath object`: the objects that a repository holds or held."""

from collections.abc import AsyncIterator
from enum import StrEnum
from typing import Annotated

import typer
from towpath.access.v1 import admin_service_pb2 as pb
from towpath.storage.v1 import storage_service_pb2 as storage

from services.cli.admin.pagination import PAGE, pages, show_pages
from services.cli.admin.records import object_record
from services.cli.connection import Administration, Target
from services.cli.errors import CommandError
from services.cli.options import Data, Json, Repository, Server, Yes, confirm
from services.cli.output import show_record, show_removal

app = typer.Typer(help="List and remove objects, and bring them back.", no_args_is_help=True)

Oid = Annotated[str, typer.Argument(metavar="OID", help="The object's id: 64 hexadecimal digits.", show_default=False)]


class Order(StrEnum):
    """The order of the list of objects."""

    OID = "oid"
    LARGEST = "largest"
    NEWEST = "newest"


class State(StrEnum):
    """The objects in the list."""

    ANY = "any"
    HELD = "held"
    BIN = "bin"
    DAMAGED = "damaged"


_ORDERS = {
    Order.OID: storage.OBJECT_ORDER_UNSPECIFIED,
    Order.LARGEST: storage.OBJECT_ORDER_LARGEST,
    Order.NEWEST: storage.OBJECT_ORDER_NEWEST,
}
_STATES = {
    State.ANY: storage.OBJECT_STATE_UNSPECIFIED,
    State.HELD: storage.OBJECT_STATE_HELD,
    State.BIN: storage.OBJECT_STATE_BIN,
    State.DAMAGED: storage.OBJECT_STATE_DAMAGED,
}


@app.command("list")
def list_objects(
    repository: Repository,
    order: Annotated[Order, typer.Option(help="By id, or the largest or the newest first.")] = Order.OID,
    state: Annotated[
        State, typer.Option(help="All objects, or those that are held, lie in the bin, or are damaged.")
    ] = State.ANY,
    data: Data = None,
    server: Server = None,
    as_json: Json = False,
) -> None:
    """List the objects of a repository by id, removed ones included, or some of them in another order."""
    show_pages(
        Target(data, server),
        lambda admin: admin.stub.ListRepositoryObjects,
        pb.ListRepositoryObjectsRequest(repository=repository, order=_ORDERS[order], state=_STATES[state]),
        lambda page: map(object_record, page.objects),
        ("oid", "size", "created_at", "removed_at", "bin_until", "removal_reason"),
        as_json=as_json,
    )


@app.command("copy")
def copy_objects(
    source: Annotated[str, typer.Argument(metavar="FROM", help="The repository that holds them.", show_default=False)],
    target: Annotated[str, typer.Argument(metavar="TO", help="The repository to hold them too.", show_default=False)],
    oids: Annotated[
        list[str] | None, typer.Argument(metavar="[OID]...", help="The objects' ids.", show_default=False)
    ] = None,
    all_: Annotated[bool, typer.Option("--all", help="Copy all objects that FROM holds.")] = False,
    data: Data = None,
    server: Server = None,
    as_json: Json = False,
) -> None:
    """Let a repository hold objects of another one too, such as for a fork, without an upload."""
    if all_ == bool(oids):
        raise CommandError("expected the ids of objects, or --all")

    copied_count, missing, removed = 0, list[str](), list[str]()

    async def copy(admin: Administration) -> None:
        nonlocal copied_count
        async for page in _held(admin, source) if all_ else _pages(oids or []):
            request = pb.CopyObjectsRequest(repository=source, to_repository=target, oids=page)
            response = await admin.call(admin.stub.CopyObjects, request)
            copied_count += len(response.copied_oids)
            missing.extend(response.missing_oids)
            removed.extend(response.removed_oids)

    Target(data, server).run(copy)
    if oids and (missing or removed):
        reasons = [f"{source} does not hold {oid}" for oid in missing]
        reasons += [f"{oid} was removed from {target}" for oid in removed]
        raise CommandError(f"{'; '.join(reasons)}; the others are copied")
    record = {"repository": target, "copied_count": copied_count, "missing": missing, "removed": removed}
    show_record(record, as_json=as_json)


async def _held(admin: Administration, repository: str) -> AsyncIterator[list[str]]:
    request = pb.ListRepositoryObjectsRequest(repository=repository)
    async for page in pages(admin, admin.stub.ListRepositoryObjects, request):
        yield [entry.oid for entry in page.objects if not entry.HasField("removed_at")]


async def _pages(oids: list[str]) -> AsyncIterator[list[str]]:
    for start in range(0, len(oids), PAGE):
        yield oids[start : start + PAGE]


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
    """Remove an object from a repository; nobody can upload it again, and its bytes stay in the bin for a time."""
    confirm(f"Remove the object {oid} from {repository}?", yes=yes)
    request = pb.RemoveObjectRequest(repository=repository, oid=oid, reason=reason)
    response = Target(data, server).ask(lambda admin: admin.RemoveObject, request)
    show_removal(f"the object {oid} from {repository}", object_record(response.object), as_json=as_json)


@app.command("undelete")
def undelete_object(
    repository: Repository, oid: Oid, data: Data = None, server: Server = None, as_json: Json = False
) -> None:
    """Bring a removed object and its bytes back from the bin."""
    request = pb.RestoreObjectRequest(repository=repository, oid=oid, bytes_required=True)
    response = Target(data, server).ask(lambda admin: admin.RestoreObject, request)
    show_record({"repository": repository, **object_record(response.object)}, as_json=as_json)


@app.command("restore")
def restore_object(
    repository: Repository, oid: Oid, data: Data = None, server: Server = None, as_json: Json = False
) -> None:
    """Bring a removed object back from the bin; if its bytes are gone, let it be uploaded again."""
    request = pb.RestoreObjectRequest(repository=repository, oid=oid)
    response = Target(data, server).ask(lambda admin: admin.RestoreObject, request)
    record = {"repository": repository, "oid": oid}
    if response.HasField("object"):
        record |= object_record(response.object)
    show_record(record, as_json=as_json)


@app.command("purge")
def purge_object(
    repository: Repository, oid: Oid, yes: Yes = False, data: Data = None, server: Server = None, as_json: Json = False
) -> None:
    """Take the bytes of a removed object out of the bin for good; tell which other repositories still need them."""
    confirm(f"Purge the bytes of the object {oid} of {repository}?", yes=yes)
    request = pb.PurgeObjectRequest(repository=repository, oid=oid)
    response = Target(data, server).ask(lambda admin: admin.PurgeObject, request)
    record = {**object_record(response.object), "needed_by": list(response.repositories)}
    show_removal(f"the bytes of the object {oid} from the bin of {repository}", record, as_json=as_json)
