"""The commands `towpath issuer`: providers of OpenID Connect, and the programs of a continuous integration."""

from typing import Annotated, Any

import typer
from towpath.access.v1 import admin_service_pb2 as pb

from services.cli.admin.access import Role
from services.cli.admin.issuer_records import grant_rule, issuer_record, rules_of
from services.cli.admin.records import ROLES
from services.cli.connection import Target
from services.cli.errors import CommandError
from services.cli.options import Data, Json, Repository, Server, Yes, confirm
from services.cli.output import cell, show_record, show_records, show_removal

app = typer.Typer(
    help="Issuers of JSON Web Tokens (OpenID Connect): where people sign in, and programs of a continuous integration.",
    no_args_is_help=True,
)

Name = Annotated[str, typer.Argument(metavar="NAME", help="The issuer's name.", show_default=False)]
Value = Annotated[
    str, typer.Argument(metavar="VALUE", help="A value in the claim of groups, exactly.", show_default=False)
]
Group = Annotated[str, typer.Argument(metavar="GROUP", help="The name of a group here.", show_default=False)]

_COLUMNS = ("name", "issuer", "audiences", "client_id", "user_claim", "groups_claim")
_RULES = ("kind", "id", "claims", "group", "repository", "role", "ref_claim")


@app.command("add")
def add_issuer(
    name: Name,
    issuer: Annotated[
        str,
        typer.Option(
            metavar="URL",
            help="The issuer's URL, exactly as in the claim iss. Its keys are found by OpenID Connect Discovery.",
            show_default=False,
        ),
    ],
    audience: Annotated[
        list[str] | None,
        typer.Option(
            metavar="AUDIENCE",
            help="A value of the claim aud, of which a token needs one. To be given as often as needed; that of "
            "--client-id is one already.",
            show_default=False,
        ),
    ] = None,
    client_id: Annotated[
        str, typer.Option(metavar="ID", help="The client by which people sign in with `towpath login`.")
    ] = "",
    client_secret: Annotated[
        str,
        typer.Option(
            metavar="SECRET",
            help="The secret of that client, where the issuer asks for one. Everybody can read it.",
        ),
    ] = "",
    user_claim: Annotated[
        str | None,
        typer.Option(
            metavar="CLAIM",
            help="The claim with the user's name; with --client-id it is preferred_username by default. Without one, "
            "the tokens are those of programs: see `towpath issuer allow`.",
            show_default=False,
        ),
    ] = None,
    groups_claim: Annotated[
        str, typer.Option(metavar="CLAIM", help="The claim with the user's groups: see `towpath issuer map`.")
    ] = "",
    data: Data = None,
    server: Server = None,
    as_json: Json = False,
) -> None:
    """Accept the tokens of an issuer, which is asked for its keys at once: what it lacks is told."""
    by_default = "preferred_username" if client_id or groups_claim else ""
    request = pb.CreateIssuerRequest(
        name=name,
        url=issuer,
        audiences=audience or [],
        client_id=client_id,
        client_secret=client_secret,
        user_claim=by_default if user_claim is None else user_claim,
        groups_claim=groups_claim,
        check=True,
    )
    response = Target(data, server).ask(lambda admin: admin.CreateIssuer, request)
    show_record(issuer_record(response.issuer), as_json=as_json)
    if response.keys:
        typer.echo(f"The issuer publishes {response.keys} keys for signatures.", err=True)
    for problem in response.problems:
        typer.echo(f"warning: {cell(problem)}", err=True)


@app.command("list")
def list_issuers(data: Data = None, server: Server = None, as_json: Json = False) -> None:
    """List the issuers by name; --json has their groups and grants too."""
    response = Target(data, server).ask(lambda admin: admin.ListIssuers, pb.ListIssuersRequest())
    show_records(map(issuer_record, response.issuers), _COLUMNS, as_json=as_json)


@app.command("rules")
def list_rules(name: Name, data: Data = None, server: Server = None, as_json: Json = False) -> None:
    """List the groups and the grants of an issuer."""
    response = Target(data, server).ask(lambda admin: admin.ListIssuers, pb.ListIssuersRequest())
    found = next((issuer for issuer in response.issuers if issuer.name == name), None)
    if found is None:
        raise CommandError(f"there is no issuer {name}")
    show_records(rules_of(found), _RULES, as_json=as_json)


@app.command("remove")
def remove_issuer(
    name: Name, yes: Yes = False, data: Data = None, server: Server = None, as_json: Json = False
) -> None:
    """Accept the tokens of an issuer no more; those in use end within a second. Its users stay, with their locks."""
    confirm(f"Remove the issuer {name}, and end all of its tokens?", yes=yes)
    response = Target(data, server).ask(lambda admin: admin.DeleteIssuer, pb.DeleteIssuerRequest(name=name))
    show_removal(f"the issuer {name}", issuer_record(response.issuer), as_json=as_json)


@app.command("map")
def map_group(
    name: Name, value: Value, group: Group, data: Data = None, server: Server = None, as_json: Json = False
) -> None:
    """Let a value of the claim of groups mean a group here, for all tokens that are shown from now on."""
    request = pb.MapIssuerGroupRequest(issuer=name, value=value, group=group)
    Target(data, server).ask(lambda admin: admin.MapIssuerGroup, request)
    show_record({"issuer": name, "value": value, "group": group}, as_json=as_json)


@app.command("unmap")
def unmap_group(
    name: Name,
    value: Value,
    group: Group,
    yes: Yes = False,
    data: Data = None,
    server: Server = None,
    as_json: Json = False,
) -> None:
    """Let a value mean a group no more, also for the tokens in use."""
    confirm(f"Take the group {group} from those who have it by {value} at {name}?", yes=yes)
    request = pb.UnmapIssuerGroupRequest(issuer=name, value=value, group=group)
    Target(data, server).ask(lambda admin: admin.UnmapIssuerGroup, request)
    record = {"issuer": name, "value": value, "group": group}
    show_removal(f"the meaning of {value}", record, as_json=as_json)


@app.command("allow")
def allow(
    name: Name,
    repository: Repository,
    role: Annotated[Role, typer.Option(help="What its programs may do; each includes the one before it.")],
    claim: Annotated[
        list[str],
        typer.Option(
            metavar="CLAIM=PATTERN",
            help="A claim that a token needs, such as repository=acme/film: '*' is any characters. To be given as "
            "often as needed; a token needs all of them.",
            show_default=False,
        ),
    ],
    ref_claim: Annotated[
        str, typer.Option(metavar="CLAIM", help="The claim with the only ref that a token may write.")
    ] = "ref",
    any_ref: Annotated[bool, typer.Option("--any-ref", help="A token may write every ref, whatever its own.")] = False,
    data: Data = None,
    server: Server = None,
    as_json: Json = False,
) -> None:
    """Give a role to the programs whose tokens have these claims. A token may write its own ref only."""
    request = pb.CreateIssuerGrantRequest(
        issuer=name,
        repository=repository,
        role=ROLES[role],
        claims=parse_claims(claim),
        ref_claim="" if any_ref else ref_claim,
    )
    response = Target(data, server).ask(lambda admin: admin.CreateIssuerGrant, request)
    show_record(grant_rule(response.grant), as_json=as_json)


@app.command("disallow")
def disallow(
    name: Name,
    repository: Repository,
    grant_id: Annotated[
        int, typer.Option("--id", metavar="ID", help="Only the grant with this id.", show_default=False)
    ] = 0,
    yes: Yes = False,
    data: Data = None,
    server: Server = None,
    as_json: Json = False,
) -> None:
    """Take the grants of an issuer in a repository, also from the tokens in use, and print them."""
    confirm(f"Take the grants of {name} in {repository}?", yes=yes)
    request = pb.DeleteIssuerGrantsRequest(issuer=name, repository=repository, id=grant_id)
    response = Target(data, server).ask(lambda admin: admin.DeleteIssuerGrants, request)
    show_records(map(grant_rule, response.grants), _RULES, as_json=as_json)


def parse_claims(texts: list[str]) -> dict[str, str]:
    """Return the patterns by claim. Raises typer's usage error for anything but CLAIM=PATTERN, and for repeats."""
    claims: dict[str, Any] = {}
    for text in texts:
        name, equals, pattern = text.partition("=")
        if not (name and equals and pattern):
            raise typer.BadParameter(f"expected CLAIM=PATTERN, got {text!r}", param_hint="--claim")
        if claims.setdefault(name, pattern) != pattern:
            raise typer.BadParameter(f"the claim {name} is given twice", param_hint="--claim")
    return claims
