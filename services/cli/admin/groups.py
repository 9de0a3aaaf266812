"""The commands `towpath group`: sets of users with grants of their own."""

from typing import Annotated, Any

import typer
from towpath.access.v1 import admin_service_pb2 as pb

from services.cli.admin.access import Origin
from services.cli.admin.pagination import show_pages
from services.cli.admin.records import group_record, user_record
from services.cli.admin.usage_records import limit_fields
from services.cli.connection import Target
from services.cli.errors import CommandError
from services.cli.options import (
    QUOTA,
    Data,
    Json,
    RequestRate,
    Server,
    Yes,
    confirm,
    parse_limit,
    parse_request_rate_option,
)
from services.cli.output import show_record, show_removal

app = typer.Typer(
    help="Add, list, change and remove groups of users, which have grants of their own.", no_args_is_help=True
)
members = typer.Typer(help="Add, list and remove the members of a group.", no_args_is_help=True)
app.add_typer(members, name="member")

Group = Annotated[str, typer.Argument(metavar="GROUP", help="The group's name.", show_default=False)]
Users = Annotated[list[str], typer.Argument(metavar="USER...", help="The users' names.", show_default=False)]


@app.command("add")
def add_group(
    group: Group, rate: RequestRate = None, data: Data = None, server: Server = None, as_json: Json = False
) -> None:
    """Add a group, which has no members and no grants yet."""
    request = pb.CreateGroupRequest(name=group, rate=parse_request_rate_option(rate))
    response = Target(data, server).ask(lambda admin: admin.CreateGroup, request)
    show_record(group_record(response.group), as_json=as_json)


@app.command("list")
def list_groups(data: Data = None, server: Server = None, as_json: Json = False) -> None:
    """List all groups by name."""
    show_pages(
        Target(data, server),
        lambda admin: admin.stub.ListGroups,
        pb.ListGroupsRequest(),
        lambda page: map(group_record, page.groups),
        ("name", "members", "created_at", "rate"),
        as_json=as_json,
    )


@app.command("update")
def update_group(
    group: Group,
    quota: Annotated[str | None, QUOTA] = None,
    rate: RequestRate = None,
    data: Data = None,
    server: Server = None,
    as_json: Json = False,
) -> None:
    """Change what is given. Of these, a member without one alone has the highest of its groups."""
    if quota is None and rate is None:
        raise CommandError("expected --quota or --rate")
    limits = pb.SetLimitsRequest(group_name=group, quota_bytes=parse_limit(quota, "--quota"))
    request = pb.UpdateGroupRequest(name=group, rate=parse_request_rate_option(rate))
    target, record = Target(data, server), dict[str, Any](group=group)
    if rate is not None:
        record = group_record(target.ask(lambda admin: admin.UpdateGroup, request).group)
    if quota is not None:
        record |= limit_fields(target.ask(lambda admin: admin.SetLimits, limits).limits, as_json=as_json)
    show_record(record, as_json=as_json)


@app.command("remove")
def remove_group(
    group: Group, yes: Yes = False, data: Data = None, server: Server = None, as_json: Json = False
) -> None:
    """Remove a group with all its grants; its members stay users."""
    confirm(f"Remove the group {group} with all its grants?", yes=yes)
    response = Target(data, server).ask(lambda admin: admin.DeleteGroup, pb.DeleteGroupRequest(name=group))
    show_removal(f"the group {group}", group_record(response.group), as_json=as_json)


@members.command("add")
def add_members(
    group: Group,
    users: Users,
    origin: Origin = "",
    data: Data = None,
    server: Server = None,
    as_json: Json = False,
) -> None:
    """Make users members of a group: all of them, or none where one does not exist."""
    request = pb.AddGroupMembersRequest(group_name=group, user_names=users, origin=origin)
    response = Target(data, server).ask(lambda admin: admin.AddGroupMembers, request)
    show_record(group_record(response.group), as_json=as_json)


@members.command("list")
def list_members(group: Group, data: Data = None, server: Server = None, as_json: Json = False) -> None:
    """List the members of a group by name, without those that an issuer names."""
    show_pages(
        Target(data, server),
        lambda admin: admin.stub.ListGroupMembers,
        pb.ListGroupMembersRequest(group_name=group),
        lambda page: map(user_record, page.users),
        ("name", "administrator", "created_at"),
        as_json=as_json,
    )


@members.command("remove")
def remove_members(
    group: Group, users: Users, yes: Yes = False, data: Data = None, server: Server = None, as_json: Json = False
) -> None:
    """End the membership of users in a group: of all of them, or of none where one is no member."""
    confirm(f"Remove {', '.join(users)} from the group {group}?", yes=yes)
    request = pb.RemoveGroupMembersRequest(group_name=group, user_names=users)
    response = Target(data, server).ask(lambda admin: admin.RemoveGroupMembers, request)
    show_record(group_record(response.group), as_json=as_json)
