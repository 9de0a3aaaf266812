"""The commands `towpath repo` that archive repositories, remove them, and bring them back from the bin."""

from pathlib import Path
from typing import Annotated

import typer
from towpath.access.v1 import admin_service_pb2 as pb

from services.cli.admin.records import repository_record
from services.cli.connection import Target
from services.cli.options import Data, Json, Repository, Server, Yes, confirm
from services.cli.output import show_record, show_removal

InBin = Annotated[
    int,
    typer.Option("--id", help="The id of one of several with this name in the bin.", show_default=False),
]


def remove_repository(
    repository: Repository,
    force: Annotated[
        bool, typer.Option("--force", help="Remove its objects and locks too, without which a full one stays.")
    ] = False,
    yes: Yes = False,
    data: Data = None,
    server: Server = None,
    as_json: Json = False,
) -> None:
    """Move a repository with all that it has to the bin, from where undelete brings it back for some time."""
    with_what = "grants, objects and locks" if force else "grants"
    confirm(f"Remove the repository {repository} with its {with_what}?", yes=yes)
    request = pb.DeleteRepositoryRequest(name=repository, force=force)
    response = Target(data, server).ask(lambda admin: admin.DeleteRepository, request)
    show_removal(f"the repository {repository}", repository_record(response.repository), as_json=as_json)


def undelete_repository(
    repository: Repository,
    name: Annotated[
        str | None,
        typer.Option("--name", metavar="NEW", help="Another name, where its own is taken by now.", show_default=False),
    ] = None,
    id_: InBin = 0,
    data: Data = None,
    server: Server = None,
    as_json: Json = False,
) -> None:
    """Take a removed repository out of the bin, with its grants, objects and locks."""
    request = pb.RestoreRepositoryRequest(name=repository, id=id_, new_name=name or "")
    response = Target(data, server).ask(lambda admin: admin.RestoreRepository, request)
    show_record(repository_record(response.repository), as_json=as_json)


def purge_repository(
    repository: Repository,
    id_: InBin = 0,
    yes: Yes = False,
    data: Data = None,
    server: Server = None,
    as_json: Json = False,
) -> None:
    """Remove a repository that is in the bin for good. Nothing brings it back."""
    confirm(f"Remove the repository {repository} in the bin for good? Nothing brings it back.", yes=yes)
    request = pb.PurgeRepositoryRequest(name=repository, id=id_)
    response = Target(data, server).ask(lambda admin: admin.PurgeRepository, request)
    show_removal(f"the repository {repository} for good", repository_record(response.repository), as_json=as_json)


def archive_repository(repository: Repository, data: Data = None, server: Server = None, as_json: Json = False) -> None:
    """Let a repository be read only: uploads, and changes of locks by users, are refused; its locks stand."""
    _set_archived(repository, data, server, archived=True, as_json=as_json)


def unarchive_repository(
    repository: Repository, data: Data = None, server: Server = None, as_json: Json = False
) -> None:
    """Let an archived repository be changed again."""
    _set_archived(repository, data, server, archived=False, as_json=as_json)


def _set_archived(repository: str, data: Path | None, server: str | None, *, archived: bool, as_json: bool) -> None:
    request = pb.UpdateRepositoryRequest(name=repository, archived=archived)
    response = Target(data, server).ask(lambda admin: admin.UpdateRepository, request)
    show_record(repository_record(response.repository), as_json=as_json)
