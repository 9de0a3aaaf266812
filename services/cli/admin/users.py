"""The commands `towpath user`: the users, to whom tokens and grants belong."""

from typing import Annotated, Any

import typer
from towpath.access.v1 import admin_service_pb2 as pb

from services.cli.admin.pagination import show_pages
from services.cli.admin.records import user_record
from services.cli.admin.usage_records import limit_fields
from services.cli.connection import Target
from services.cli.errors import CommandError
from services.cli.options import (
    QUOTA,
    Data,
    Json,
    RequestRate,
    Server,
    User,
    Yes,
    confirm,
    parse_limit,
    parse_request_rate_option,
)
from services.cli.output import show_record, show_removal

app = typer.Typer(help="Add, list, change and remove users.", no_args_is_help=True)


@app.command("add")
def add_user(
    user: User,
    administrator: Annotated[
        bool, typer.Option("--administrator", help="May use the administration commands.")
    ] = False,
    rate: RequestRate = None,
    data: Data = None,
    server: Server = None,
    as_json: Json = False,
) -> None:
    """Add a user, who has no token and no access yet."""
    request = pb.CreateUserRequest(name=user, administrator=administrator, rate=parse_request_rate_option(rate))
    response = Target(data, server).ask(lambda admin: admin.CreateUser, request)
    show_record(user_record(response.user), as_json=as_json)


@app.command("list")
def list_users(data: Data = None, server: Server = None, as_json: Json = False) -> None:
    """List all users by name."""
    show_pages(
        Target(data, server),
        lambda admin: admin.stub.ListUsers,
        pb.ListUsersRequest(),
        lambda page: map(user_record, page.users),
        ("name", "administrator", "created_at", "origin", "rate"),
        as_json=as_json,
    )


@app.command("update")
def update_user(
    user: User,
    quota: Annotated[str | None, QUOTA] = None,
    rate: RequestRate = None,
    data: Data = None,
    server: Server = None,
    as_json: Json = False,
) -> None:
    """Change what is given. Without one alone, the highest quota and rate of the user's groups count."""
    if quota is None and rate is None:
        raise CommandError("expected --quota or --rate")
    limits = pb.SetLimitsRequest(user_name=user, quota_bytes=parse_limit(quota, "--quota"))
    request = pb.UpdateUserRequest(name=user, rate=parse_request_rate_option(rate))
    target, record = Target(data, server), dict[str, Any](user=user)
    if rate is not None:
        record = user_record(target.ask(lambda admin: admin.UpdateUser, request).user)
    if quota is not None:
        record |= limit_fields(target.ask(lambda admin: admin.SetLimits, limits).limits, as_json=as_json)
    show_record(record, as_json=as_json)


@app.command("remove")
def remove_user(
    user: User,
    release_locks: Annotated[
        bool, typer.Option("--release-locks", help="Release the user's locks, without which a holder is not removed.")
    ] = False,
    yes: Yes = False,
    data: Data = None,
    server: Server = None,
    as_json: Json = False,
) -> None:
    """Remove a user with all tokens and grants."""
    confirm(f"Remove the user {user} with all tokens and grants?", yes=yes)
    request = pb.DeleteUserRequest(name=user, release_locks=release_locks)
    response = Target(data, server).ask(lambda admin: admin.DeleteUser, request)
    show_removal(f"the user {user}", user_record(response.user), as_json=as_json)
