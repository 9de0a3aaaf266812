"""The command `towpath check`: it checks a permission if a user is named, else the bytes of all objects."""

from typing import Annotated

import typer

from services.cli.admin import access
from services.cli.backup import commands
from services.cli.connection import Target
from services.cli.options import MEBIBYTE, Data, Json, Server, rate_option

# Slow enough not to disturb the clients of a running stack.
_MEBIBYTES = 100


def check(
    user: Annotated[
        str | None, typer.Argument(metavar="USER", help="The user's name; '' for anybody.", show_default=False)
    ] = None,
    repository: Annotated[
        str | None, typer.Argument(metavar="REPO", help="The repository's name.", show_default=False)
    ] = None,
    operation: Annotated[
        access.Operation | None, typer.Option(help="With USER: what the user would do.", show_default=False)
    ] = None,
    ref: Annotated[
        str, typer.Option(metavar="REF", help="With USER: the ref that the client names, such as refs/heads/main.")
    ] = "",
    hashed: Annotated[bool, typer.Option("--hash", help="Read every object and compare its SHA-256.")] = False,
    heal: Annotated[
        bool, typer.Option("--heal", help="With --hash, have bytes brought again that another store has, or a client.")
    ] = False,
    rate: Annotated[int, rate_option(shown_default=str(_MEBIBYTES))] = _MEBIBYTES * MEBIBYTE,
    data: Data = None,
    server: Server = None,
    as_json: Json = False,
) -> None:
    """Check what a user may do, or the objects.

    With USER, REPO and --operation: say whether the user may do that, and which grant decides; the exit status is 0 for
    yes and 1 for no.

    Without: compare the index of objects with the bytes that are there; services may run meanwhile. The exit status is
    1 where objects are missing or corrupt. Healable ones are so in one store and not in another. Orphaned ones, which
    no repository holds, do no harm.
    """
    if user is None:
        for name, given in (("--operation", operation), ("--ref", ref), ("--server", server)):
            if given:
                raise typer.BadParameter("expected USER and REPO with it", param_hint=name)
        if heal and not hashed:
            raise typer.BadParameter("expected --hash with it", param_hint="--heal")
        commands.check(data, hashed=hashed, heal=heal, rate=rate, as_json=as_json)
        return
    if repository is None or operation is None:
        raise typer.BadParameter("expected REPO and --operation with it", param_hint="USER")
    if hashed or heal:
        name = "--hash" if hashed else "--heal"
        raise typer.BadParameter("checks the objects, and takes no USER", param_hint=name)
    access.explain(user, repository, operation, ref, Target(data, server), as_json=as_json)
