"""The command `towpath usage`: the objects, bytes and locks of each repository."""

from typing import Annotated

import typer
from rich.filesize import decimal
from towpath.access.v1 import admin_service_pb2 as pb

from services.cli.admin.records import usage_record
from services.cli.connection import Target
from services.cli.options import Data, Json, Server
from services.cli.output import show_record, show_records


def usage(
    repository: Annotated[
        str, typer.Argument(metavar="REPO", help="The repository's name; all where it is not given.")
    ] = "",
    data: Data = None,
    server: Server = None,
    as_json: Json = False,
) -> None:
    """Tell how many bytes and objects the repositories hold and have moved today (UTC), and how much still fits."""
    response = Target(data, server).ask(lambda admin: admin.ListUsage, pb.ListUsageRequest(repository=repository))
    records = [usage_record(entry) for entry in response.usage]
    available = response.available_bytes if response.HasField("available_bytes") else None
    if as_json:
        show_record({"repositories": records, "available_bytes": available}, as_json=True)
        return
    held = ("repository", "object_count", "object_bytes", "removed_count", "bin_bytes")
    show_records(records, (*held, "bytes_in_today", "bytes_out_today", "locks"), as_json=False)
    if available is not None:
        typer.echo(f"{decimal(available)} can still be stored.")
