"""The commands `towpath forge`: forges, whose tokens are credentials in the repositories that are tied to them."""

from enum import StrEnum
from typing import Annotated

import typer
from towpath.access.v1 import admin_service_pb2 as pb

from services.cli.admin.records import FORGE_KINDS, forge_record
from services.cli.connection import Target
from services.cli.options import Data, Json, Server, Yes, confirm
from services.cli.output import show_record, show_records, show_removal

app = typer.Typer(help="Forges, whose tokens people use here too.", no_args_is_help=True)

Name = Annotated[str, typer.Argument(metavar="NAME", help="The forge's name here.", show_default=False)]


class Kind(StrEnum):
    """The interface of a forge."""

    GITHUB = "github"
    GITLAB = "gitlab"
    GITEA = "gitea"
    FORGEJO = "forgejo"


@app.command("add")
def add_forge(
    name: Name,
    kind: Annotated[Kind, typer.Option("--kind", help="The interface that it has.", show_default=False)],
    repositories: Annotated[
        list[str],
        typer.Option(
            "--repositories",
            metavar="PATTERN",
            help="The repositories there that may be used here, such as 'acme/*'. To be given as often as needed.",
            show_default=False,
        ),
    ],
    api: Annotated[
        str,
        typer.Option(
            "--api",
            metavar="URL",
            help="The URL of its interface, such as https://git.example.org/api/v1; for github.com and gitlab.com it "
            "is known.",
            show_default=False,
        ),
    ] = "",
    create_on_use: Annotated[
        bool,
        typer.Option(
            "--create-on-use", help="Add a repository of the same name when somebody uses it who may write it there."
        ),
    ] = False,
    data: Data = None,
    server: Server = None,
    as_json: Json = False,
) -> None:
    """Add a forge, to which repositories are tied by `repo add --forge`."""
    request = pb.CreateForgeRequest(
        name=name, kind=FORGE_KINDS[kind], api_url=api, repositories=repositories, creates_on_use=create_on_use
    )
    response = Target(data, server).ask(lambda admin: admin.CreateForge, request)
    show_record(forge_record(response.forge), as_json=as_json)


@app.command("list")
def list_forges(data: Data = None, server: Server = None, as_json: Json = False) -> None:
    """List the forges by name."""
    response = Target(data, server).ask(lambda admin: admin.ListForges, pb.ListForgesRequest())
    columns = ("name", "kind", "api_url", "repositories", "creates_on_use")
    show_records(map(forge_record, response.forges), columns, as_json=as_json)


@app.command("remove")
def remove_forge(name: Name, yes: Yes = False, data: Data = None, server: Server = None, as_json: Json = False) -> None:
    """Remove a forge to which no repository is tied; its tokens end here."""
    confirm(f"Remove the forge {name}, so that its tokens are no credentials here?", yes=yes)
    response = Target(data, server).ask(lambda admin: admin.DeleteForge, pb.DeleteForgeRequest(name=name))
    show_removal(f"the forge {name}", forge_record(response.forge), as_json=as_json)
