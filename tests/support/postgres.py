"""A real Postgres for the tests, and a database for each that asks."""

import asyncio
import itertools
import signal
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from pydantic import SecretStr
from sqlalchemy.engine import make_url

from services.cli.embedded_postgres import STOP_SIGNAL, SUPERUSER, EmbeddedPostgres, programs
from services.cli.unprivileged.account import RunAs, account_for
from services.cli.unprivileged.installation import installation_for
from services.cli.unprivileged.ownership import give
from services.database.migrations import migrate
from services.locks.models import SCHEMA as LOCKS
from services.storage.index.schema import SCHEMA as STORAGE
from tests.support.folders import temporary_folder
from tests.support.prepared import copy_prepared
from tests.support.waiting import STEP_SECONDS

_MIGRATED = "migrated"
"""The database that new ones are copies of. It has the tables of all services; a migration takes ten times as long."""

# Autovacuum visits each database of a cluster within its naptime: with sixty it was a sixth of what Postgres did.
_SETTINGS = ("--fsync=off", "--autovacuum_naptime=1d")

_numbers = itertools.count()


class TestPostgres:
    """One server for a whole test run."""

    __test__ = False

    def __init__(self, postgres: EmbeddedPostgres) -> None:
        self.postgres = postgres

    async def create_database(self, *, empty: bool = False) -> SecretStr:
        """Make a database that goes with the server, with the tables of all services or empty; return its URL."""
        name = f"test_{next(_numbers)}"
        # By files: the default writes each block to the log too, for three times the processor time.
        source = "" if empty else f" TEMPLATE {_MIGRATED} STRATEGY FILE_COPY"
        await self.execute(f'CREATE DATABASE "{name}"{source}')
        return self.url(name)

    def url(self, database: str) -> SecretStr:
        """Return the URL of a database, for the superuser."""
        return SecretStr(f"postgresql://{SUPERUSER}@/{database}?host={self.postgres.sockets}")

    @asynccontextmanager
    async def database(self, *, empty: bool = False) -> AsyncIterator[SecretStr]:
        """Make a database as `create_database` does, give its URL, and drop it."""
        url = await self.create_database(empty=empty)
        try:
            yield url
        finally:
            name = make_url(url.get_secret_value()).database
            await self.execute(f'DROP DATABASE "{name}" WITH (FORCE)')

    async def execute_at(self, url: SecretStr, statement: str) -> str:
        """Run a statement as `execute` does, in the database of a URL."""
        database = make_url(url.get_secret_value()).database
        assert database is not None
        return await self.execute(statement, database=database)

    async def processes(self) -> list[int]:
        """Return the ids of the server's process and of those that serve connections now."""
        serving = "SELECT pid FROM pg_stat_activity WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()"
        server = (self.postgres.data / "postmaster.pid").read_text().splitlines()[0]
        return [int(pid) for pid in (server, *(await self.execute(serving)).split())]

    async def execute(self, statement: str, *, database: str = "postgres") -> str:
        """Run a statement as the superuser and return what psql prints, unadorned."""
        process = await asyncio.create_subprocess_exec(
            programs() / "psql",
            f"--host={self.postgres.sockets}",
            f"--username={SUPERUSER}",
            f"--dbname={database}",
            "--no-psqlrc",
            "--quiet",
            "--tuples-only",
            "--no-align",
            "--set=ON_ERROR_STOP=1",
            f"--command={statement}",
            stdout=subprocess.PIPE,
        )
        output, _ = await asyncio.wait_for(process.communicate(), timeout=STEP_SECONDS)
        assert process.returncode == 0, statement
        return output.decode().strip()


def new_cluster(folder: Path) -> EmbeddedPostgres:
    """Return a cluster to be made in a new folder; where root runs the tests it is Towpath's account's."""
    folder.mkdir(mode=0o700)
    (folder / "s").mkdir(mode=0o700)
    if (account := account_for(folder, None)) is not None:
        give(folder, account)
    return _cluster(folder)


def _cluster(folder: Path) -> EmbeddedPostgres:
    account = account_for(folder, None)
    if account is None:
        return EmbeddedPostgres(folder / "data", folder / "s")
    # The copy of the programs stays as long as this process holds it, which is to its end.
    packages = installation_for(account).packages
    return EmbeddedPostgres(folder / "data", folder / "s", run_as=RunAs(account), packages=packages)


@asynccontextmanager
async def running_postgres() -> AsyncIterator[TestPostgres]:
    """Run a server in a temporary folder."""
    with temporary_folder() as parent:
        folder = parent / "postgres"
        await asyncio.to_thread(copy_prepared, "cluster", lambda new: asyncio.run(_make_cluster(new)), folder)
        # Nobody reads the data afterwards, and to write all of it takes long after a whole run.
        async with _running(_cluster(folder), end=signal.SIGQUIT) as server:
            yield server


async def _make_cluster(folder: Path) -> None:
    async with _running(new_cluster(folder)) as server:
        await server.execute(f"CREATE DATABASE {_MIGRATED}")
        for schema in (STORAGE, LOCKS):
            await migrate(server.url(_MIGRATED), schema)


@asynccontextmanager
async def _running(postgres: EmbeddedPostgres, *, end: signal.Signals = STOP_SIGNAL) -> AsyncIterator[TestPostgres]:
    await postgres.prepare()
    with (postgres.data.parent / "log").open("wb") as log:
        server = await asyncio.create_subprocess_exec(
            *postgres.run_as.command([*postgres.command(), *_SETTINGS]),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
        )
    try:
        await postgres.wait_ready()
        yield TestPostgres(postgres)
    finally:
        server.send_signal(end)
        await asyncio.wait_for(server.wait(), timeout=STEP_SECONDS)
