"""The commands `towpath repo`: the repositories that objects and locks belong to."""

from enum import StrEnum
from typing import Annotated

import typer
from towpath.access.v1 import admin_service_pb2 as pb

from services.cli.admin import repository_life
from services.cli.admin.records import FORCED_UNLOCK, repository_record
from services.cli.admin.usage_records import limit_fields
from services.cli.connection import Target
from services.cli.options import Data, Json, Repository, Server, parse_limit, parse_seconds
from services.cli.output import show_record, show_records

app = typer.Typer(help="Add, list, change, remove and restore repositories.", no_args_is_help=True)


class ForcedUnlock(StrEnum):
    """The users that may remove another user's lock."""

    WRITERS = "writers"
    ADMINS = "admins"


Forced = Annotated[
    ForcedUnlock | None,
    typer.Option("--forced-unlock", help="Who may remove the locks of others.", show_default=False),
]
StaleAfter = Annotated[
    str | None,
    typer.Option(
        "--stale-after",
        metavar="TIME",
        help="Every user who may push can steal a lock that is older, such as 14d; or never.",
        show_default=False,
    ),
]
KeepHistory = Annotated[
    str | None,
    typer.Option(
        "--keep-history",
        metavar="TIME",
        help="Delete a released lock from the history after this time, such as 1y; or never.",
        show_default=False,
    ),
]
LockSpaces = Annotated[
    list[str] | None,
    typer.Option(
        "--lock-space",
        metavar="PATTERN=SPACE",
        help="Lock refs of this pattern apart, such as 'refs/heads/release/*=per-ref', or all in a space of this name. "
        "The first pattern that matches counts. To be given as often as needed.",
        show_default=False,
    ),
]
Quota = Annotated[
    str | None,
    typer.Option(
        "--quota",
        metavar="SIZE",
        help="The bytes that it may hold, such as 500GB; none; or default, as the storage service is set.",
        show_default=False,
    ),
]
Bandwidth = Annotated[
    str | None,
    typer.Option(
        "--bandwidth",
        metavar="SIZE",
        help="The bytes that it may move on a day (UTC), such as 1TB/day; none; or default.",
        show_default=False,
    ),
]
Forge = Annotated[
    str | None,
    typer.Option("--forge", metavar="NAME", help="The forge whose tokens are credentials here.", show_default=False),
]
ForgeRepository = Annotated[
    str | None,
    typer.Option(
        "--forge-repository",
        metavar="OWNER/REPO",
        help="The repository at the forge, by which roles are decided.",
        show_default=False,
    ),
]


@app.command("add")
def add_repository(
    repository: Repository,
    public: Annotated[bool, typer.Option("--public", help="Anybody may read it, without credentials.")] = False,
    forced_unlock: Forced = None,
    stale_after: StaleAfter = None,
    keep_history: KeepHistory = None,
    lock_space: LockSpaces = None,
    forge: Forge = None,
    forge_repository: ForgeRepository = None,
    restricted: Annotated[
        bool, typer.Option("--restricted", help="Tokens of the forge read only where they may write there.")
    ] = False,
    data: Data = None,
    server: Server = None,
    as_json: Json = False,
) -> None:
    """Add a repository, which nobody has access to yet unless it is public."""
    request = pb.CreateRepositoryRequest(
        name=repository,
        public=public,
        stale_after_seconds=parse_seconds(stale_after, "--stale-after") or 0,
        history_seconds=parse_seconds(keep_history, "--keep-history") or 0,
        lock_spaces=lock_space,
        forge=forge or "",
        forge_repository=forge_repository or "",
        restricted=restricted,
    )
    if forced_unlock is not None:
        request.forced_unlock = FORCED_UNLOCK[forced_unlock]
    response = Target(data, server).ask(lambda admin: admin.CreateRepository, request)
    show_record(repository_record(response.repository), as_json=as_json)


@app.command("list")
def list_repositories(
    removed: Annotated[bool, typer.Option("--removed", help="List the repositories in the bin instead.")] = False,
    data: Data = None,
    server: Server = None,
    as_json: Json = False,
) -> None:
    """List all repositories by name."""
    request = pb.ListRepositoriesRequest(removed=removed)
    response = Target(data, server).ask(lambda admin: admin.ListRepositories, request)
    columns = (
        ("id", "name", "removed_at", "bin_until") if removed else ("name", "public", "forced_unlock", "created_at")
    )
    show_records(map(repository_record, response.repositories), columns, as_json=as_json)


@app.command("rename")
def rename_repository(
    repository: Repository,
    new_name: Annotated[str, typer.Argument(metavar="NEW", help="The new name.", show_default=False)],
    data: Data = None,
    server: Server = None,
    as_json: Json = False,
) -> None:
    """Give a repository another name; it keeps its objects, locks and grants.

    Clients that use the earlier name reach it for some time, unless another repository gets that name.
    """
    request = pb.UpdateRepositoryRequest(name=repository, new_name=new_name)
    response = Target(data, server).ask(lambda admin: admin.UpdateRepository, request)
    show_record(repository_record(response.repository), as_json=as_json)


@app.command("update")
def update_repository(
    repository: Repository,
    public: Annotated[
        bool | None,
        typer.Option("--public/--private", help="Whether anybody may read it without credentials.", show_default=False),
    ] = None,
    forced_unlock: Forced = None,
    stale_after: StaleAfter = None,
    keep_history: KeepHistory = None,
    release_on: Annotated[
        list[str] | None,
        typer.Option(
            "--release-on",
            metavar="PATTERN",
            help="A push to such a ref, as 'refs/heads/main', releases its pusher's locks on the pushed paths; needs "
            "the hook post-receive. To be given as often as needed; '' alone for no ref.",
            show_default=False,
        ),
    ] = None,
    lock_space: LockSpaces = None,
    no_lock_spaces: Annotated[bool, typer.Option("--no-lock-spaces", help="Lock all refs together.")] = False,
    forge: Forge = None,
    forge_repository: ForgeRepository = None,
    no_forge: Annotated[bool, typer.Option("--no-forge", help="Let no token of a forge be a credential.")] = False,
    restricted: Annotated[
        bool | None,
        typer.Option(
            "--restricted/--not-restricted",
            help="Whether tokens of the forge read only where they may write there.",
            show_default=False,
        ),
    ] = None,
    quota: Quota = None,
    bandwidth: Bandwidth = None,
    data: Data = None,
    server: Server = None,
    as_json: Json = False,
) -> None:
    """Change what is given; the rest stays as it is."""
    limits = pb.SetLimitsRequest(
        repository=repository,
        quota_bytes=parse_limit(quota, "--quota"),
        bandwidth_bytes=parse_limit(bandwidth, "--bandwidth", daily=True),
    )
    if lock_space and no_lock_spaces:
        raise typer.BadParameter("give either this or --no-lock-spaces", param_hint="--lock-space")
    if forge and no_forge:
        raise typer.BadParameter("give either this or --no-forge", param_hint="--forge")
    spaces = pb.LockSpaces(rules=lock_space) if lock_space or no_lock_spaces else None
    request = pb.UpdateRepositoryRequest(
        name=repository,
        lock_spaces=spaces,
        stale_after_seconds=parse_seconds(stale_after, "--stale-after"),
        history_seconds=parse_seconds(keep_history, "--keep-history"),
        forge="" if no_forge else forge,
        forge_repository=forge_repository,
        restricted=restricted,
    )
    if public is not None:
        request.public = public
    if forced_unlock is not None:
        request.forced_unlock = FORCED_UNLOCK[forced_unlock]
    if release_on is not None:
        request.release_on.CopyFrom(pb.RefPatterns(patterns=[] if release_on == [""] else release_on))
    target = Target(data, server)
    record = repository_record(target.ask(lambda admin: admin.UpdateRepository, request).repository)
    if quota is not None or bandwidth is not None:
        record |= limit_fields(target.ask(lambda admin: admin.SetLimits, limits).limits, as_json=as_json)
    show_record(record, as_json=as_json)


for _name, _command in (
    ("remove", repository_life.remove_repository),
    ("undelete", repository_life.undelete_repository),
    ("purge", repository_life.purge_repository),
    ("archive", repository_life.archive_repository),
    ("unarchive", repository_life.unarchive_repository),
):
    app.command(_name)(_command)
