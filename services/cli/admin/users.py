"""The commands `towpath user`: the users, to whom tokens and grants belong."""

from typing import Annotated

import typer
from towpath.access.v1 import admin_service_pb2 as pb

from services.cli.admin.pagination import show_pages
from services.cli.admin.records import user_record
from services.cli.admin.usage_records import limit_fields
from services.cli.connection import Target
from services.cli.options import QUOTA, Data, Json, Server, User, Yes, confirm, parse_limit
from services.cli.output import show_record, show_removal

app = typer.Typer(help="Add, list, change and remove users.", no_args_is_help=True)


@app.command("add")
def add_user(
    user: User,
    administrator: Annotated[
        bool, typer.Option("--administrator", help="May use the administration commands.")
    ] = False,
    data: Data = None,
    server: Server = None,
    as_json: Json = False,
) -> None:
    """Add a user, who has no token and no access yet."""
    request = pb.CreateUserRequest(name=user, administrator=administrator)
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
        ("name", "administrator", "created_at"),
        as_json=as_json,
    )


@app.command("update")
def update_user(
    user: User,
    quota: Annotated[str, QUOTA],
    data: Data = None,
    server: Server = None,
    as_json: Json = False,
) -> None:
    """Change what is given. By default, the highest quota of the user's groups counts, or else that of the settings."""
    request = pb.SetLimitsRequest(user_name=user, quota_bytes=parse_limit(quota, "--quota"))
    limits = Target(data, server).ask(lambda admin: admin.SetLimits, request).limits
    show_record({"user": user, **limit_fields(limits)}, as_json=as_json)


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
