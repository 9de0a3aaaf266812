"""The commands `towpath up` and `towpath migrate`, with their options."""

import asyncio
import os
import sys
from contextlib import redirect_stdout
from pathlib import Path
from typing import Annotated
from urllib.parse import urlsplit

import typer
from pydantic import SecretStr

from services.cli.options import UP_DATA
from services.cli.settings import CommandSettings
from services.cli.unprivileged.account import account_for
from services.cli.unprivileged.entry import Inherited
from services.cli.up import programs
from services.cli.up.stack import UpOptions, enter_account
from services.cli.up.stack import up as run_stack
from services.cli.up.variables import for_service
from services.common.addresses import Address
from services.common.observability.logs import LogFormat, configure

_WAIT_SECONDS = 60.0


def _address(text: str) -> Address:
    try:
        return Address.parse(text)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from error


def _public_url(text: str) -> str:
    parts = urlsplit(text)
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment or "=" in text:
        raise typer.BadParameter("expected http(s)://HOST[:PORT][/PATH] without query and without '='")
    return text.rstrip("/")


def _database_url(text: str) -> str:
    if not text.startswith(("postgresql://", "postgres://")):
        raise typer.BadParameter("expected postgresql://USER:PASSWORD@HOST:PORT/DATABASE")
    return text


def _log_format() -> LogFormat:
    chosen = os.environ.get("TOWPATH_LOG_FORMAT")
    if not chosen:
        return LogFormat.TEXT if sys.stderr.isatty() else LogFormat.JSON
    try:
        return LogFormat(chosen)
    except ValueError as error:
        raise typer.BadParameter("expected json or text", param_hint="TOWPATH_LOG_FORMAT") from error


DatabaseUrl = Annotated[
    str | None,
    typer.Option(
        metavar="URL",
        envvar="TOWPATH_DATABASE_URL",
        parser=_database_url,
        help="A Postgres to use, postgresql://USER:PASSWORD@HOST:PORT/DATABASE, instead of one of our own.",
    ),
]


def up(
    data: Annotated[
        Path, typer.Option(metavar="DIR", envvar="TOWPATH_DATA", help="Where everything is kept.")
    ] = UP_DATA,
    listen: Annotated[
        Address,
        typer.Option(
            metavar="HOST:PORT",
            envvar="TOWPATH_LISTEN",
            parser=_address,
            help="Where clients connect; port 0 is any free one.",
        ),
    ] = "127.0.0.1:8080",  # type: ignore[assignment] # typer passes the default to the parser
    public_url: Annotated[
        str | None,
        typer.Option(
            metavar="URL",
            envvar="TOWPATH_PUBLIC_URL",
            parser=_public_url,
            help="The address that clients see, where a proxy stands before it.",
        ),
    ] = None,
    database_url: DatabaseUrl = None,
    storage: Annotated[
        str | None,
        typer.Option(
            metavar="URL",
            envvar="TOWPATH_STORAGE_URL",
            help="Where the bytes of objects go instead of DIR/storage, such as s3://BUCKET/PREFIX; given once, it is "
            "remembered.",
        ),
    ] = None,
    upstream: Annotated[
        str | None,
        typer.Option(
            metavar="URL",
            envvar="TOWPATH_CACHE_UPSTREAM",
            parser=_public_url,
            help="Run a cache of this server instead, such as https://lfs.example.org: see docs/second-office.md.",
        ),
    ] = None,
    facades: Annotated[
        int,
        typer.Option(
            metavar="N",
            envvar="TOWPATH_FACADES",
            min=1,
            help="How many processes serve clients; they share the port, and where one dies the others go on.",
        ),
    ] = 2,
    hang_seconds: Annotated[
        float,
        typer.Option(
            metavar="SECONDS",
            envvar="TOWPATH_HANG_SECONDS",
            min=0,
            help="How long a process may show no sign of life before it is killed and started again; 0 for ever.",
        ),
    ] = 10.0,
    user: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            envvar="TOWPATH_USER",
            help="Started as root: the account that everything runs as. By default the owner of DIR, or the account "
            "towpath, which is made where it is missing.",
            show_default=False,
        ),
    ] = None,
    demo: Annotated[
        bool, typer.Option("--demo", help="Make a repository and two users to try it with (DIR/demo.json).")
    ] = False,
) -> None:
    """Run Towpath in the foreground: Postgres, storage, locks and facades.

    When clients can connect it prints one line, `Towpath is ready: http://HOST:PORT` (https:// where
    TOWPATH_HTTPS_CERTIFICATE is set); all else goes to the standard error. SIGINT (Ctrl-C) and SIGTERM stop it within
    10 s. A process of it that dies or hangs is started again. Started as root, it opens the port and then goes on as an
    ordinary user, see --user.

    With --upstream it runs a cache alone, which needs no Postgres and keeps objects in DIR/cache.

    The services read their settings from the environment (TOWPATH_...).
    """
    if upstream and (demo or database_url or storage):
        raise typer.BadParameter("a cache has no --demo, --database-url or --storage", param_hint="--upstream")
    log_format = _log_format()
    with redirect_stdout(sys.stderr):
        # The standard output is for the ready line only.
        configure("up", level="INFO", log_format=log_format)
    inherited = Inherited.take()
    options = UpOptions(
        data=data,
        listen=listen,
        public_url=public_url,
        database_url=SecretStr(database_url) if database_url else None,
        storage_url=storage,
        upstream=upstream,
        facades=facades,
        hang_seconds=hang_seconds,
        demo=demo,
        log_format=log_format,
        environment=os.environ,
    )
    if (account := account_for(data, user)) is not None:
        enter_account(options, account)
    asyncio.run(run_stack(options, inherited))


def migrate(database_url: DatabaseUrl = None) -> None:
    """Bring the tables of all services to their newest version, where they run without `towpath up`.

    Tables that a newer Towpath has migrated stay as they are; this one is refused where they say that it is too old.

    A Postgres that does not answer yet is waited for, for a minute. Where TOWPATH_ADMIN_TOKEN or the secret file of
    that name is given, the administrator is made with that token. To do all this again changes nothing.
    """
    settings = CommandSettings.read()
    if database_url is None and settings.database_url is not None:
        database_url = settings.database_url.get_secret_value()
    if database_url is None:
        raise typer.BadParameter("give it, or set TOWPATH_DATABASE_URL", param_hint="--database-url")
    asyncio.run(_migrate(database_url, make_administrator=settings.admin_token is not None))


async def _migrate(url: str, *, make_administrator: bool) -> None:
    classes = {"storage": "MigrationSettings", "locks": "LocksDatabaseSettings"}
    for name, settings in classes.items():
        environment = {**for_service(os.environ, name, settings), f"TOWPATH_{name.upper()}_DATABASE_URL": url}
        typer.echo(await programs.migrate(name, environment, wait_seconds=_WAIT_SECONDS))
    if make_administrator:
        environment = {**for_service(os.environ, "locks", "BootstrapSettings"), "TOWPATH_LOCKS_DATABASE_URL": url}
        # Do not print the token that this returns: our output may go to a log.
        await programs.bootstrap(environment)
        typer.echo("locks: the administrator has the token that was given")
