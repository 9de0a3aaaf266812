"""The `towpath` command."""

import sys
from functools import cache
from importlib.metadata import version
from typing import Annotated, Any

import typer

from services.cli.admin import (
    access,
    audit,
    forges,
    groups,
    hooks,
    issuers,
    locks,
    objects,
    repositories,
    ssh_keys,
    stores,
    tokens,
    users,
)
from services.cli.admin.usage import usage
from services.cli.backup import commands
from services.cli.check import check
from services.cli.conformance.command import conformance
from services.cli.errors import CommandError
from services.cli.garbage.command import gc
from services.cli.output import cell
from services.cli.push_hooks import command as push_hooks
from services.cli.sign_in.command import login, logout
from services.cli.ssh import app as ssh
from services.cli.transfer.command import export_repository, import_repository
from services.cli.up.command import migrate, up
from services.common.errors import ServiceError

app = typer.Typer(
    name="towpath",
    help="Towpath: the server for large files beside git repositories, and for exclusive locks on their paths.",
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
push_hooks.register(hooks.app)


def _print_version(asked: bool) -> None:
    if asked:
        typer.echo(f"towpath {version('towpath')}")
        raise typer.Exit


@app.callback()
def _options(
    _version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    pass


app.command("up")(up)
app.command("migrate")(migrate)
app.add_typer(users.app, name="user")
app.add_typer(tokens.app, name="token")
app.add_typer(groups.app, name="group")
app.add_typer(ssh_keys.app, name="key")
repositories.app.command("import")(import_repository)
repositories.app.command("export")(export_repository)
app.add_typer(repositories.app, name="repo")
app.add_typer(forges.app, name="forge")
app.command("grant")(access.grant)
app.command("revoke")(access.revoke)
app.command("access")(access.access)
app.add_typer(issuers.app, name="issuer")
app.add_typer(locks.app, name="lock")
app.add_typer(objects.app, name="object")
app.add_typer(hooks.app, name="hook")
app.add_typer(stores.app, name="storage")
app.add_typer(audit.app, name="audit")
app.command("explain")(audit.explain)
app.add_typer(ssh, name="ssh")
app.command("usage")(usage)
app.command("gc")(gc)
app.command("backup")(commands.backup)
app.command("restore")(commands.restore)
app.command("check")(check)
app.command("conformance")(conformance)
app.command("login")(login)
app.command("logout")(logout)


@cache
def root_command() -> Any:  # noqa: ANN401 - typer does not export the base of its commands and groups
    """Return the command with all its groups, built once in a process: that takes half of the time of most commands."""
    return typer.main.get_command(app)


def run() -> None:
    """Run the command of this process: exit status 0, 1 with a one-line reason, or 2 for a usage error."""
    try:
        root_command()(prog_name="towpath")
    except CommandError as error:
        _fail(str(error))
    except ServiceError as error:
        _fail(error.message)
    except OSError as error:
        # Such as a full disk or another user's folder: the system's message includes the path.
        _fail(str(error))


def _fail(message: str) -> None:
    # Parts of it may be words of another server; a list of failures has a line for each.
    lines = (cell(line) for line in message.split("\n"))
    sys.stderr.write("towpath: " + "\n".join(lines) + "\n")
    sys.exit(1)
