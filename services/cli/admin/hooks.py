"""The commands `towpath hook`: webhooks, which tell other programs of locks and removed objects."""

from enum import StrEnum
from typing import Annotated

import typer
from towpath.access.v1 import admin_service_pb2 as pb

from services.cli.admin.pagination import show_pages
from services.cli.admin.records import HOOK_FORMATS, delivery_record, hook_record
from services.cli.connection import Target
from services.cli.options import Data, Json, Server, Yes, confirm
from services.cli.output import show_record, show_records

app = typer.Typer(help="Webhooks, and the hooks of a git server that enforce locks at push.", no_args_is_help=True)

HookId = Annotated[int, typer.Argument(metavar="ID", help="The hook's id.", show_default=False)]


class Format(StrEnum):
    """The form of a webhook's deliveries."""

    JSON = "json"
    SLACK = "slack"
    DISCORD = "discord"


@app.command("add")
def add_hook(
    target: Annotated[
        list[str],
        typer.Argument(metavar="[REPO] URL", help="The repository's name, and the URL to call.", show_default=False),
    ],
    all_repositories: Annotated[
        bool, typer.Option("--all-repositories", help="The events of all repositories, instead of one.")
    ] = False,
    events: Annotated[
        str, typer.Option("--events", metavar="TYPES", help="Types of events, or all of a kind, separated by commas.")
    ] = "lock.*",
    form: Annotated[Format, typer.Option("--format", help="What the receiver takes.")] = Format.JSON,
    allow_private: Annotated[
        bool, typer.Option("--allow-private", help="The URL may have private addresses, and use http.")
    ] = False,
    data: Data = None,
    server: Server = None,
    as_json: Json = False,
) -> None:
    """Call a URL at each event of a repository. The printed secret verifies the calls, and is shown only once."""
    *repository, url = target
    if len(repository) != (0 if all_repositories else 1):
        expected = "the URL alone" if all_repositories else "the repository and the URL, or --all-repositories"
        raise typer.BadParameter(f"give {expected}", param_hint="[REPO] URL")
    request = pb.CreateHookRequest(
        repository="".join(repository),
        url=url,
        events=[pattern.strip() for pattern in events.split(",")],
        format=HOOK_FORMATS[form],
        allow_private=allow_private,
    )
    response = Target(data, server).ask(lambda admin: admin.CreateHook, request)
    show_record({**hook_record(response.hook), "secret": response.secret}, as_json=as_json)


@app.command("list")
def list_hooks(
    repository: Annotated[
        str, typer.Argument(metavar="[REPO]", help="Only those that hear of this repository.", show_default=False)
    ] = "",
    data: Data = None,
    server: Server = None,
    as_json: Json = False,
) -> None:
    """List the webhooks."""
    response = Target(data, server).ask(lambda admin: admin.ListHooks, pb.ListHooksRequest(repository=repository))
    columns = ("id", "repository", "events", "format", "disabled_because", "url")
    show_records(map(hook_record, response.hooks), columns, as_json=as_json)


@app.command("remove")
def remove_hook(
    hook_id: HookId, yes: Yes = False, data: Data = None, server: Server = None, as_json: Json = False
) -> None:
    """Remove a webhook; what was not delivered to it yet is not delivered any more."""
    confirm(f"Remove the hook {hook_id} with its deliveries?", yes=yes)
    Target(data, server).ask(lambda admin: admin.DeleteHook, pb.DeleteHookRequest(id=hook_id))
    show_record({"id": hook_id}, as_json=as_json)


@app.command("deliveries")
def list_deliveries(
    hook_id: HookId,
    failed: Annotated[bool, typer.Option("--failed", help="Only those that have ended without success.")] = False,
    data: Data = None,
    server: Server = None,
    as_json: Json = False,
) -> None:
    """List the deliveries to a webhook in the last 30 days, the latest first."""
    show_pages(
        Target(data, server),
        lambda admin: admin.stub.ListHookDeliveries,
        pb.ListHookDeliveriesRequest(hook_id=hook_id, failed=failed),
        lambda page: map(delivery_record, page.deliveries),
        ("id", "event", "repository", "created_at", "state", "attempts", "next_attempt_at", "problem"),
        as_json=as_json,
    )


@app.command("redeliver")
def redeliver(
    hook_id: HookId,
    delivery: Annotated[
        int | None, typer.Argument(metavar="[DELIVERY]", help="The delivery's id.", show_default=False)
    ] = None,
    failed: Annotated[bool, typer.Option("--failed", help="All that have ended without success.")] = False,
    data: Data = None,
    server: Server = None,
    as_json: Json = False,
) -> None:
    """Deliver again, with the same message id: one delivery, or all that failed."""
    if (delivery is None) == (not failed):
        raise typer.BadParameter("give the id of a delivery, or --failed", param_hint="[DELIVERY]")
    request = pb.RedeliverHookRequest(hook_id=hook_id)
    if delivery is None:
        request.failed = True
    else:
        request.delivery_id = delivery
    response = Target(data, server).ask(lambda admin: admin.RedeliverHook, request)
    show_record({"id": hook_id, "queued": response.count}, as_json=as_json)
