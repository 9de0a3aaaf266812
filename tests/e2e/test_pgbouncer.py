"""Towpath whose Postgres is behind PgBouncer."""

import asyncio
import json
import os
import subprocess
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr
from sqlalchemy.engine import make_url

from services.cli.embedded_postgres import PORT
from services.database.migrations import migrate
from services.locks.models import SCHEMA as LOCKS
from services.storage.index.schema import SCHEMA as STORAGE
from tests.support.commands import finished
from tests.support.folders import temporary_folder
from tests.support.health import wait_serving
from tests.support.http import Client, content, oid_of
from tests.support.pgbouncer import PgBouncer, running_pgbouncer
from tests.support.postgres import TestPostgres
from tests.support.service_process import service_process
from tests.support.stack import TOWPATH, Stack, running_stack
from tests.support.storage import StorageClient
from tests.support.waiting import STEP_SECONDS, until

SERVICES = ("storage", "locks")
SOCKET = f".s.PGSQL.{PORT}"
REFUSAL = (
    "the database is behind a pooler in transaction or statement mode; "
    "towpath needs session mode (pool_mode = session), because its locks belong to sessions"
)
LISTENING = "SELECT count(*) FROM pg_stat_activity WHERE query LIKE '%pg_trigger%' AND datname = '{}'"


@pytest.fixture
async def pgbouncer(postgres: TestPostgres) -> AsyncIterator[PgBouncer]:
    """A PgBouncer as the documentation configures it."""
    async with running_pgbouncer(postgres.postgres) as running:
        yield running


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder that Towpath's account can enter."""
    with temporary_folder() as made:
        yield made


@pytest.fixture
def pooled(pgbouncer: PgBouncer, database_url: SecretStr) -> str:
    """The URL of an empty database through it."""
    return pgbouncer.url(database_url).get_secret_value()


@pytest.fixture
def stack(pooled: str) -> Iterator[Stack]:
    """A `towpath up --demo` on that."""
    with running_stack(environment={"TOWPATH_DATABASE_URL": pooled}) as running:
        yield running


def settings(service: str, url: str, folder: Path) -> dict[str, Any]:
    """Return the settings of a service on its own."""
    own = {"storage": {"storage_url": (folder / "bytes").as_uri()}, "locks": {"storage_address": "unix:/nowhere"}}
    listen = f"unix:{folder / service}.sock"
    return {f"{service}_listen": listen, f"{service}_database_url": url, **own[service]}


@pytest.mark.drill
async def test_all_works_in_session_mode(
    stack: Stack, pgbouncer: PgBouncer, postgres: TestPostgres, database_url: SecretStr, pooled: str
) -> None:
    """Tables are made, objects and locks come and go, accesses are taken away, and a backup is made and is whole."""
    listening = LISTENING.format(make_url(database_url.get_secret_value()).database)
    data = [content(f"object {number}", 50_000) for number in range(8)]
    async with Client(stack.base_url, "alice", stack.tokens["alice"]) as alice:
        for answer in await asyncio.gather(*map(alice.upload, data)):
            assert answer.status_code == 200
        lock = (await alice.lock("a.psd")).json()["lock"]
        assert await alice.all_locks() == [lock]
        await until(lambda: listens(postgres, listening), "the services listen")

        await pgbouncer.stop()
        await pgbouncer.start()
        for one in data:
            assert (await alice.download(oid_of(one), len(one))).content == one
        assert (await alice.lock("a.psd")).status_code == 409
        assert (await alice.unlock(lock["id"])).status_code == 200
        assert (await alice.upload(content("after", 50_000))).status_code == 200
        await until(lambda: listens(postgres, listening), "the services listen again")

        stack.towpath("token", "revoke", "alice", "demo")
        await until(lambda: is_refused(alice), "the token is revoked")
    target = stack.data.parent / "backup"
    environment = {
        **os.environ,
        "TOWPATH_STORAGE_DATABASE_URL": pooled,
        "TOWPATH_STORAGE_URL": stack.bucket.url if stack.bucket else (stack.data / "storage").as_uri(),
    }
    backup = await run("backup", str(target), "--json", environment=environment)
    assert backup.returncode == 0, backup.stderr
    assert json.loads(backup.stdout)["copied_objects"] == len(data) + 1
    checked = await run("check", "--hash", "--json", environment=environment)
    assert checked.returncode == 0, checked.stderr


async def listens(postgres: TestPostgres, question: str) -> bool:
    """Tell whether both services do."""
    return await postgres.execute(question) == "2"


async def is_refused(user: Client) -> bool:
    """Tell whether the user's token is refused."""
    return (await user.locks()).status_code == 401


async def run(*arguments: str, environment: dict[str, str]) -> "subprocess.CompletedProcess[str]":
    """Run a command of `towpath`."""
    return await asyncio.to_thread(finished, [*TOWPATH, *arguments], env=environment)


@pytest.mark.drill
@pytest.mark.parametrize("mode", ["transaction", "statement"])
async def test_other_modes_are_refused_in_one_line(
    mode: str, postgres: TestPostgres, database_url: SecretStr, folder: Path
) -> None:
    """By `towpath up`, the commands and each service, which end."""
    async with running_pgbouncer(postgres.postgres, mode=mode) as pgbouncer:
        url = pgbouncer.url(database_url).get_secret_value()
        environment = {
            **os.environ,
            "TOWPATH_DATABASE_URL": url,
            "TOWPATH_STORAGE_DATABASE_URL": url,
            "TOWPATH_STORAGE_URL": (folder / "bytes").as_uri(),
        }
        up = ("up", "--data", str(folder / "var"), "--listen", "127.0.0.1:0")
        for arguments in (up, ("migrate",), ("backup", str(folder / "backup"))):
            done = await run(*arguments, environment=environment)
            assert (done.returncode, done.stdout) == (1, "")
            assert done.stderr.splitlines()[-1].startswith("towpath: ")
            assert done.stderr.endswith(f"{REFUSAL}\n")
        for schema in (STORAGE, LOCKS):
            await migrate(database_url, schema)
        for service in SERVICES:
            log = folder / f"{service}.log"
            with service_process(service, log, settings=settings(service, url, folder)) as process:
                assert await asyncio.to_thread(process.wait, STEP_SECONDS) == 1
            assert log.read_text() == f"{service}: {REFUSAL}\n"


async def test_a_postgres_that_starts_later_is_waited_for(
    postgres: TestPostgres, database_url: SecretStr, folder: Path
) -> None:
    """An error of PgBouncer while it finds none is no refusal."""
    await migrate(database_url, STORAGE)
    async with running_pgbouncer(postgres.postgres, "server_login_retry = 1", sockets=folder) as pgbouncer:
        url = pgbouncer.url(database_url).get_secret_value()
        log = folder / "log"
        with service_process("storage", log, settings=settings("storage", url, folder)) as process:
            await until(lambda: log.read_text().count('"not ready"') > 1, "the service has found no Postgres, twice")
            assert process.poll() is None
            (folder / SOCKET).symlink_to(postgres.postgres.sockets / SOCKET)
            client = StorageClient(folder)
            await wait_serving(client.channel)
            await client.channel.close()
