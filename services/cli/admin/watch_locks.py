"""The command `towpath lock watch`: the changes of a repository's locks as they are made."""

import asyncio
import json
from collections.abc import Callable
from contextlib import aclosing
from typing import Annotated, Any

import typer
from towpath.access.v1 import admin_service_pb2 as pb
from towpath.locks.v1.lock_service_pb2 import LockEvent, LockEventType

from services.cli.admin.records import lock_record, moment
from services.cli.connection import Administration, Target
from services.cli.options import Data, Json, Repository, Server
from services.cli.output import cell
from services.common.errors import Aborted, DeadlineExceeded, Unavailable

_PAUSE_SECONDS = 1.0


def watch_locks(
    repository: Repository,
    after: Annotated[
        str | None,
        typer.Option("--after", metavar="POSITION", help="Begin after this position of --json.", show_default=False),
    ] = None,
    data: Data = None,
    server: Server = None,
    as_json: Json = False,
) -> None:
    """Print the changes of a repository's locks as they are made, until Ctrl-C; with --json an object on each line."""
    request = pb.WatchRepositoryLocksRequest(repository=repository, after=after)

    async def follow(admin: Administration) -> None:
        await _follow(admin, request, lambda record: typer.echo(_line(record, as_json=as_json)))

    try:
        Target(data, server).run(follow)
    except KeyboardInterrupt:
        # The end that every watch has.
        return


async def _follow(
    admin: Administration, request: pb.WatchRepositoryLocksRequest, show: Callable[[dict[str, Any]], None]
) -> None:
    """Show each event, and a reset as one; go on after the last position where the service is away or stops."""
    while True:
        try:
            async with aclosing(admin.stream(admin.stub.WatchRepositoryLocks, request)) as responses:
                async for response in responses:
                    changes = response.changes
                    if changes.reset:
                        show({"type": "reset", "position": changes.position})
                    for event in changes.events:
                        show(_record(event))
                    request.after = changes.position
        except (Aborted, DeadlineExceeded, Unavailable):
            pass
        await asyncio.sleep(_PAUSE_SECONDS)


def _record(event: LockEvent) -> dict[str, Any]:
    """Return the printed fields of an event; `reason` and `previous` are absent if there are none."""
    record = {
        "type": LockEventType.Name(event.type).removeprefix("LOCK_EVENT_TYPE_").lower(),
        "at": moment(event.created_at),
        "by": event.caused_by,
        "lock": lock_record(event.lock),
        "forced": event.forced,
        "position": event.position,
    }
    if event.reason:
        record["reason"] = event.reason
    if event.previous_id:
        record["previous"] = {"id": event.previous_id, "owner": event.previous_owner_name}
    return record


def _line(record: dict[str, Any], *, as_json: bool) -> str:
    if as_json:
        return json.dumps(record, ensure_ascii=False)
    if "lock" not in record:
        return "changes are missing here: list the locks again"
    owner, by, why = record["lock"]["owner"], record["by"], record.get("reason", "")
    if record["type"] == "created":
        change, why = f"locked by {owner}", record["lock"].get("note", "")
    elif "previous" in record:
        for_other = f" for {owner}" if owner != by else ""
        change = f"lock of {record['previous']['owner']} stolen by {by}{for_other}"
    elif record["forced"]:
        change = f"lock of {owner} removed by {by}"
    else:
        change = f"unlocked by {by}"
    return f"{record['at']}  {cell(record['lock']['path'])}  {cell(f'{change}: {why}' if why else change)}"
