"""The commands `towpath login` and `towpath logout`: sign-in of people by their issuer."""

import shutil
import subprocess
from typing import Annotated

import typer

from services.cli.credential_fields import write
from services.cli.errors import CommandError
from services.cli.options import Json
from services.cli.output import cell, show_record
from services.cli.sign_in import provider as issuers
from services.cli.sign_in.sign_ins import SignIn, SignIns, normal_url
from services.cli.sign_in.tokens import sign_in
from services.cli.sign_in.web import WebError, is_acceptable

_GIT_SECONDS = 30

Address = Annotated[
    str, typer.Argument(metavar="URL", help="The server, such as https://lfs.example.org.", show_default=False)
]


def login(
    url: Address,
    issuer: Annotated[
        str, typer.Option(metavar="NAME", help="The issuer, where the server has several.", show_default=False)
    ] = "",
    as_json: Json = False,
) -> None:
    """Sign in at a server, in a browser on any device, and give git the token.

    The token is short-lived. With `git config --global credential.URL.helper towpath`, git gets new ones by itself.
    """
    server = _server(url)
    try:
        provider = issuers.find_provider(server, issuer)
        signed_in = sign_in(server, provider, issuers.sign_in_elsewhere(provider, _show))
    except WebError as error:
        raise CommandError(str(error)) from error
    known = SignIns()
    with known.locked():
        known.put(signed_in)
    _tell_git("approve", signed_in)
    show_record({"server": server, "issuer": provider.name, "user": signed_in.user}, as_json=as_json)


def logout(url: Address, as_json: Json = False) -> None:
    """End the sign-in at a server and at the issuer, and forget it, here and in git's credential helpers."""
    server = _server(url)
    known = SignIns()
    # Within the lock, so that no helper gets another token between the end of this one and its removal.
    with known.locked():
        current = known.read().get(server)
        if current is not None and current.token:
            _end_token(current)
        removed = known.remove(server)
    if removed is None:
        raise CommandError(f"nobody is signed in at {server}")
    _tell_git("reject", removed)
    try:
        provider = issuers.describe(removed.name, removed.issuer, removed.client_id, removed.client_secret)
        issuers.revoke(provider, removed.refresh_token)
    except WebError as error:
        raise CommandError(f"the sign-in is forgotten here, and may go on at the issuer: {error}") from error
    show_record({"server": server, "issuer": removed.name, "user": removed.user}, as_json=as_json)


def _end_token(signed_in: SignIn) -> None:
    """End a token at its server; if that fails, say so in one line, because the token expires soon by itself."""
    try:
        issuers.revoke_token(signed_in.server, signed_in.token)
    except WebError as error:
        typer.echo(f"the token is valid at the server until it expires: {cell(str(error))}", err=True)


def _show(device: issuers.Device) -> None:
    """Show the code, on the standard error: with --json, the output is JSON alone."""
    typer.echo(f"Open {cell(device.address)} and enter the code {cell(device.user_code)}", err=True)
    if device.complete_address:
        typer.echo(f"or open {cell(device.complete_address)}", err=True)


def _server(url: str) -> str:
    try:
        server = normal_url(url)
    except ValueError:
        server = ""
    if not is_acceptable(server):
        raise typer.BadParameter("expected https://HOST, or http to this computer", param_hint="URL")
    return server


def _tell_git(operation: str, signed_in: SignIn) -> None:
    """Tell git's credential helpers of a token; a git that knows fewer fields leaves the others out.

    A rejection names no token, because a helper may have an earlier one, and would forget only the one that is named.
    """
    git = shutil.which("git")
    if git is None:
        return
    protocol, _, rest = signed_in.server.partition("://")
    host, _, path = rest.partition("/")
    fields = {"protocol": protocol, "host": host, "path": path, "username": signed_in.user}
    if operation == "approve":
        fields |= {
            "password": signed_in.token,
            "password_expiry_utc": str(signed_in.expires_at),
            "oauth_refresh_token": signed_in.refresh_token,
        }
    try:
        text = write(fields)
    except ValueError as error:
        raise CommandError(f"git credential {operation}: {error}") from error
    # The path to git is found by the user's own PATH.
    told = subprocess.run(  # noqa: S603 - see above
        [git, "credential", operation], input=text, text=True, capture_output=True, timeout=_GIT_SECONDS, check=False
    )
    if told.returncode:
        raise CommandError(f"git credential {operation}: {told.stderr.strip()}")
