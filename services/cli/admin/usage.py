"""The command `towpath usage`: the objects, bytes, limits and locks of each repository."""

from typing import Annotated

import typer
from rich.filesize import decimal
from towpath.access.v1 import admin_service_pb2 as pb

from services.cli.admin.records import object_record
from services.cli.admin.usage_records import day_record, usage_record, user_usage_record
from services.cli.connection import Target
from services.cli.options import Data, Json, Server
from services.cli.output import show_record, show_records


def usage(
    repository: Annotated[
        str, typer.Argument(metavar="REPO", help="The repository's name; all where it is not given.")
    ] = "",
    user: Annotated[
        str, typer.Option(metavar="USER", help="Tell how many bytes of objects this user has brought.")
    ] = "",
    largest: Annotated[
        int, typer.Option(min=0, max=1000, help="How many of its largest objects to list too.", show_default=False)
    ] = 0,
    days: Annotated[
        int, typer.Option(min=0, max=366, help="Of how many days (UTC) to tell what it held.", show_default=False)
    ] = 0,
    data: Data = None,
    server: Server = None,
    as_json: Json = False,
) -> None:
    """Tell how many bytes and objects the repositories hold and have moved today (UTC), and how much still fits."""
    if (largest or days) and not repository:
        raise typer.BadParameter("give the repository too", param_hint="--largest" if largest else "--days")
    if user and repository:
        raise typer.BadParameter("give either this or a repository", param_hint="--user")
    if user:
        brought = Target(data, server).ask(lambda admin: admin.GetUserUsage, pb.GetUserUsageRequest(user_name=user))
        show_record(user_usage_record(user, brought.usage), as_json=as_json)
        return
    request = pb.ListUsageRequest(repository=repository, largest=largest, days=days)
    response = Target(data, server).ask(lambda admin: admin.ListUsage, request)
    records = [usage_record(entry) for entry in response.usage]
    found = [object_record(stored) for entry in response.usage for stored in entry.usage.largest]
    by_day = [day_record(held) for entry in response.usage for held in entry.usage.by_day]
    available = response.available_bytes if response.HasField("available_bytes") else None
    if as_json:
        whole = {"repositories": records, "available_bytes": available}
        asked = ({"largest": found} if largest else {}) | ({"by_day": by_day} if days else {})
        show_record(whole | asked, as_json=True)
        return
    if repository:
        show_record(records[0], as_json=False)
    else:
        held = ("repository", "object_count", "object_bytes", "removed_count", "bin_bytes")
        show_records(records, (*held, "bytes_in_today", "bytes_out_today", "locks", "quota_bytes"), as_json=False)
    if available is not None:
        typer.echo(f"{decimal(available)} can still be stored.")
    if largest:
        show_records(found, ("size", "created_at", "oid"), as_json=False)
    if days:
        show_records(by_day, ("day", "object_count", "object_bytes"), as_json=False)
