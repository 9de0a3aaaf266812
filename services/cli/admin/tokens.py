"""The commands `towpath token`: the credentials of users."""

from datetime import UTC, date, datetime
from typing import Annotated

import typer
from google.protobuf.timestamp_pb2 import Timestamp
from towpath.access.v1 import admin_service_pb2 as pb

from services.cli.admin.records import token_record
from services.cli.connection import Target
from services.cli.options import (
    Data,
    Json,
    RequestRate,
    Server,
    User,
    Yes,
    confirm,
    parse_request_rate_option,
    parse_span,
)
from services.cli.output import show_record, show_records, show_removal

app = typer.Typer(help="Add, list, change and revoke tokens, which are what users log in with.", no_args_is_help=True)

_DEFAULT_NAME = "default"

Name = Annotated[str, typer.Argument(metavar="NAME", help="The token's name.", show_default=False)]


@app.command("add")
def add_token(
    user: User,
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="NAME",
            help=f"The token's name, unique among the user's; by default {_DEFAULT_NAME}.",
            show_default=False,
        ),
    ] = None,
    name_option: Annotated[
        str | None,
        typer.Option("--name", metavar="NAME", help="The token's name, in another place.", show_default=False),
    ] = None,
    expires: Annotated[
        str | None,
        typer.Option(
            metavar="WHEN",
            help="When it ends: after 12h, 90d or 4w, or when a day such as 2026-12-31 begins (UTC); else never.",
            show_default=False,
        ),
    ] = None,
    rate: RequestRate = None,
    data: Data = None,
    server: Server = None,
    as_json: Json = False,
) -> None:
    """Make a token and print its secret, which is shown this once.

    A client sends it as the password of any user name (HTTP Basic), or as Bearer token.
    """
    if name is not None and name_option is not None:
        raise typer.BadParameter(f"the name is given twice, as {name} and as {name_option}", param_hint="--name")
    expires_at: Timestamp | None = None
    if expires is not None:
        try:
            end = parse_expiry(expires, datetime.now(UTC))
        except (ValueError, OverflowError) as error:
            raise typer.BadParameter(str(error), param_hint="--expires") from error
        expires_at = Timestamp(seconds=int(end.timestamp()))
    request = pb.CreateTokenRequest(
        user_name=user,
        name=name_option or name or _DEFAULT_NAME,
        expires_at=expires_at,
        rate=parse_request_rate_option(rate),
    )
    response = Target(data, server).ask(lambda admin: admin.CreateToken, request)
    show_record({**token_record(response.token), "secret": response.secret}, as_json=as_json)


@app.command("list")
def list_tokens(user: User, data: Data = None, server: Server = None, as_json: Json = False) -> None:
    """List a user's tokens by name, with their last use to within ten minutes, without their secrets.

    A token with an issuer is one that its user got by signing in there.
    """
    response = Target(data, server).ask(lambda admin: admin.ListTokens, pb.ListTokensRequest(user_name=user))
    columns = ("name", "created_at", "expires_at", "last_used_at", "issuer", "rate")
    show_records(map(token_record, response.tokens), columns, as_json=as_json)


@app.command("update")
def update_token(
    user: User,
    name: Name,
    rate: RequestRate = None,
    data: Data = None,
    server: Server = None,
    as_json: Json = False,
) -> None:
    """Change the limit of the requests that are made with a token, beside the limit of its user."""
    request = pb.UpdateTokenRequest(user_name=user, name=name, rate=parse_request_rate_option(rate))
    response = Target(data, server).ask(lambda admin: admin.UpdateToken, request)
    show_record(token_record(response.token), as_json=as_json)


@app.command("revoke")
def revoke_token(
    user: User, name: Name, yes: Yes = False, data: Data = None, server: Server = None, as_json: Json = False
) -> None:
    """End a token, everywhere within a second."""
    confirm(f"Revoke the token {name} of {user}?", yes=yes)
    request = pb.RevokeTokenRequest(user_name=user, name=name)
    response = Target(data, server).ask(lambda admin: admin.RevokeToken, request)
    show_removal(f"the token {name} of {user}", token_record(response.token), as_json=as_json)


def parse_expiry(text: str, now: datetime) -> datetime:
    """Return the moment of an expiry: a span after `now`, or the start of a day (UTC).

    A span is such as `12h`, `90d`, `4w` or `1y`, a day such as `2026-12-31`. Raises ValueError if the text is
    neither, or if the moment is not in the future.
    """
    span = parse_span(text)
    if span is not None:
        return now + span
    try:
        day = date.fromisoformat(text)
    except ValueError:
        raise ValueError(f"expected such as 12h, 90d, 4w, 1y or 2026-12-31, got {text!r}") from None
    end = datetime(day.year, day.month, day.day, tzinfo=UTC)
    if end <= now:
        raise ValueError(f"expected a day to come, got {text}")
    return end
