"""The commands `towpath grant`, `revoke` and `access`, and the permission check of `towpath check`."""

from enum import StrEnum
from typing import Annotated, Any

import typer
from towpath.access.v1 import access_service_pb2
from towpath.access.v1 import admin_service_pb2 as pb

from services.cli.admin.records import ROLES, grant_record
from services.cli.connection import Target
from services.cli.options import Data, Json, Repository, Server, User, Yes, confirm
from services.cli.output import cell, show_record, show_records

_COLUMNS = ("role", "ref_patterns", "ignores_locks", "created_at")

Origin = Annotated[
    str,
    typer.Option(
        "--from",
        metavar="ORIGIN",
        help="The forge or the issuer by which the user has come, such as 'issuer sso' (`towpath user list`). "
        "Needed for such a user, whose name is of its own choice.",
        show_default=False,
    ),
]
IsGroup = Annotated[bool, typer.Option("--group", help="USER is the name of a group.")]


class Role(StrEnum):
    """A role of a grant; each role includes the role before it."""

    READ = "read"
    WRITE = "write"
    ADMIN = "admin"


class Operation(StrEnum):
    """An operation of a client."""

    DOWNLOAD = "download"
    UPLOAD = "upload"
    LOCK = "lock"


_PERMISSIONS = {
    Operation.DOWNLOAD: access_service_pb2.PERMISSION_READ,
    Operation.UPLOAD: access_service_pb2.PERMISSION_WRITE,
    Operation.LOCK: access_service_pb2.PERMISSION_WRITE,
}


def grant(
    user: User,
    repository: Repository,
    role: Annotated[Role, typer.Option(help="What the user may do; each includes the one before it.")],
    ref: Annotated[
        list[str] | None,
        typer.Option(
            metavar="PATTERN",
            help="Limit writing to these refs, such as 'refs/heads/rel/*': '*' is any characters, '?' is any one. "
            "To be given as often as needed.",
            show_default=False,
        ),
    ] = None,
    ignore_locks: Annotated[
        bool,
        typer.Option(
            "--ignore-locks", help="The locks of others stop no push of the user to these refs, as for a bot."
        ),
    ] = False,
    is_group: IsGroup = False,
    origin: Origin = "",
    data: Data = None,
    server: Server = None,
    as_json: Json = False,
) -> None:
    """Give a user or a group a role in a repository, in place of an earlier grant of the same role, which is told."""
    request = pb.GrantAccessRequest(
        **_party(user, is_group=is_group),
        repository=repository,
        role=ROLES[role],
        ref_patterns=ref or [],
        ignores_locks=ignore_locks,
        origin=origin,
    )
    response = Target(data, server).ask(lambda admin: admin.GrantAccess, request)
    record, replaced = grant_record(response.grant), response.replaced
    is_change = response.HasField("replaced") and _reach(replaced) != _reach(response.grant)
    if is_change and as_json:
        record["replaced"] = grant_record(replaced)
    show_record(record, as_json=as_json)
    if is_change and not as_json:
        advice = "; to keep both, give all refs in one command" if ref else ""
        typer.echo(f"This replaces the grant of {role} for {_refs(replaced)}{advice}.")


def _party(name: str, *, is_group: bool) -> dict[str, Any]:
    return {"group_name" if is_group else "user_name": name}


def _reach(grant: pb.Grant) -> tuple[list[str], bool]:
    return list(grant.ref_patterns), grant.ignores_locks


def _refs(grant: pb.Grant) -> str:
    refs = cell(list(grant.ref_patterns)) or "every ref"
    return f"{refs}, which ignored locks" if grant.ignores_locks else refs


def revoke(
    user: User,
    repository: Repository,
    is_group: IsGroup = False,
    yes: Yes = False,
    data: Data = None,
    server: Server = None,
    as_json: Json = False,
) -> None:
    """Take all grants of a user or a group in a repository, and print them."""
    confirm(f"Take all grants of {user} in {repository}?", yes=yes)
    request = pb.RevokeAccessRequest(**_party(user, is_group=is_group), repository=repository)
    response = Target(data, server).ask(lambda admin: admin.RevokeAccess, request)
    if not as_json:
        typer.echo(f"Removed the grants of {cell(user)} in {cell(repository)}:")
    party = "group" if is_group else "user"
    show_records(map(grant_record, response.grants), (party, *_COLUMNS), as_json=as_json)


def access(repository: Repository, data: Data = None, server: Server = None, as_json: Json = False) -> None:
    """List the grants of a repository by user, and then by group."""
    response = Target(data, server).ask(lambda admin: admin.ListGrants, pb.ListGrantsRequest(repository=repository))
    if response.repository.public and not as_json:
        typer.echo("Anybody may read this repository.")
    parties = ("user", "group") if any(grant.group_name for grant in response.grants) else ("user",)
    show_records(map(grant_record, response.grants), (*parties, *_COLUMNS), as_json=as_json)


def explain(user: str, repository: str, operation: Operation, ref: str, target: Target, *, as_json: bool) -> None:
    """Print whether a user may perform an operation, and which grant decides; an empty name means anybody.

    Raises `typer.Exit` with status 0 for yes and 1 for no.
    """
    request = pb.ExplainAccessRequest(
        user_name=user, repository=repository, ref=ref, permission=_PERMISSIONS[operation]
    )
    response = target.ask(lambda admin: admin.ExplainAccess, request)
    decided = grant_record(response.grant) if response.HasField("grant") else None
    if not as_json:
        typer.echo(f"{'yes' if response.allowed else 'no'}: {cell(response.explanation)}")
        if decided is not None:
            typer.echo(f"decided by the grant: {cell(decided)}")
        raise typer.Exit(0 if response.allowed else 1)
    asked: dict[str, Any] = {"repository": repository, "operation": str(operation)}
    if user:
        asked["user"] = user
    if ref:
        asked["ref"] = ref
    answer: dict[str, Any] = {"allowed": response.allowed, "explanation": response.explanation}
    if decided is not None:
        answer["grant"] = decided
    show_record({**asked, **answer}, as_json=True)
    raise typer.Exit(0 if response.allowed else 1)
