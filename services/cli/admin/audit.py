"""The commands `towpath audit` and `towpath explain`: who changed what, and why a request was refused."""

import json
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Annotated, Any

import typer
from towpath.access.v1 import admin_service_pb2 as pb

from services.cli.admin.pagination import pages, show_pages
from services.cli.admin.records import moment
from services.cli.connection import Administration, Target
from services.cli.options import Data, Json, Server, parse_moment
from services.cli.output import show_records

app = typer.Typer(help="List and export the audit log: who changed what, and when.", no_args_is_help=True)

_SOURCE = "/towpath"

Since = Annotated[str | None, typer.Option(metavar="TIME", help="Only events since, such as 7d ago or 2026-01-31.")]
Until = Annotated[str | None, typer.Option(metavar="TIME", help="Only events before, in the same forms.")]
Actor = Annotated[str | None, typer.Option(metavar="USER", help="Only what this user did.")]
Type = Annotated[str | None, typer.Option("--type", metavar="TYPE", help="Only types that begin so, such as grant.")]
InRepository = Annotated[str | None, typer.Option("--repository", metavar="REPO", help="Only of this repository.")]


@app.command("list")
def list_events(
    since: Since = None,
    until: Until = None,
    actor: Actor = None,
    event_type: Type = None,
    repository: InRepository = None,
    data: Data = None,
    server: Server = None,
    as_json: Json = False,
) -> None:
    """List the events of the audit log, the latest first."""
    show_pages(
        Target(data, server),
        lambda admin: admin.stub.ListAuditEvents,
        _request(since, until, actor, event_type, repository),
        lambda page: map(_record, page.events),
        ("created_at", "type", "actor", "source", "subject", "repository", "request_id"),
        as_json=as_json,
    )


@app.command("export")
def export(
    since: Since = None,
    until: Until = None,
    actor: Actor = None,
    event_type: Type = None,
    repository: InRepository = None,
    data: Data = None,
    server: Server = None,
) -> None:
    """Write the events as JSON lines, each a CloudEvent 1.0, the latest first."""
    request = _request(since, until, actor, event_type, repository)

    async def write(admin: Administration) -> None:
        async for page in pages(admin, admin.stub.ListAuditEvents, request):
            for line in map(_cloud_event, page.events):
                typer.echo(json.dumps(line, ensure_ascii=False))

    Target(data, server).run(write)


def explain(
    request_id: Annotated[
        str, typer.Argument(metavar="REQUEST_ID", help="The id in the error, or in the header X-Request-Id.")
    ],
    data: Data = None,
    server: Server = None,
    as_json: Json = False,
) -> None:
    """Say why a request was refused with 401, 403 or 404, for seven days after it."""
    request = pb.ExplainRequestRequest(request_id=request_id)
    response = Target(data, server).ask(lambda admin: admin.ExplainRequest, request)
    records = list(map(_refusal, response.refusals))
    if as_json:
        show_records(records, (), as_json=True)
        return
    typer.echo("\n\n".join("\n".join(_lines(record)) for record in records))


def _request(
    since: str | None, until: str | None, actor: str | None, event_type: str | None, repository: str | None
) -> pb.ListAuditEventsRequest:
    now = datetime.now(UTC)
    return pb.ListAuditEventsRequest(
        since=parse_moment(since, "--since", now),
        until=parse_moment(until, "--until", now),
        actor=actor or "",
        type_prefix=event_type or "",
        repository=repository or "",
    )


def _record(event: pb.AuditEvent) -> dict[str, Any]:
    return {
        "id": event.id,
        "created_at": moment(event.created_at),
        "type": event.type.removeprefix("org.towpath."),
        "actor": event.actor,
        "source": event.source,
        "subject": event.subject,
        "repository": event.repository,
        "request_id": event.request_id,
        "before": json.loads(event.before or "null"),
        "after": json.loads(event.after or "null"),
    }


def _cloud_event(event: pb.AuditEvent) -> dict[str, Any]:
    """Return an event in the JSON format of CloudEvents 1.0."""
    return {
        "specversion": "1.0",
        "id": str(event.id),
        "source": f"{_SOURCE}/{event.source}",
        "type": event.type,
        "time": event.created_at.ToJsonString(),
        "subject": event.subject,
        "datacontenttype": "application/json",
        "data": {
            "actor": event.actor,
            "request_id": event.request_id,
            "repository": event.repository,
            "before": json.loads(event.before or "null"),
            "after": json.loads(event.after or "null"),
        },
    }


def _refusal(record: pb.RefusalRecord) -> dict[str, Any]:
    names = ("reason", "message", "rule", "source", "user_name", "repository", "permission", "ref")
    return {
        "created_at": moment(record.created_at),
        **{name: value for name in names if (value := getattr(record, name))},
        "groups": list(record.groups),
        "grants": [
            {
                "source": grant.source,
                "source_name": grant.source_name,
                "role": grant.role,
                "ref_patterns": list(grant.ref_patterns),
            }
            for grant in record.grants
        ],
    }


def _lines(record: dict[str, Any]) -> Iterable[str]:
    shown = {**record, "groups": ", ".join(record["groups"]), "grants": "; ".join(map(_grant, record["grants"]))}
    for name, value in shown.items():
        if value:
            yield f"{name.replace('_', ' '):<11} {value}"


def _grant(grant: dict[str, Any]) -> str:
    origin = f" by the {grant['source']} {grant['source_name']}" if grant["source_name"] else ""
    refs = f" on {', '.join(grant['ref_patterns'])}" if grant["ref_patterns"] else ""
    return f"{grant['role']}{origin}{refs}"
