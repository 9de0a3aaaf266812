"""`towpath up`: how it is stopped, what it does when something dies, and what is left after a crash."""

import asyncio
import os
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import psutil
import pytest
from alembic import command
from sqlalchemy import Connection, text

from services.cli.embedded_postgres import EmbeddedPostgres
from services.cli.up.programs import tables_are_newest
from services.database import migrations
from services.database.migrations import create_operator_engine
from services.locks.models import SCHEMA
from tests.support.http import Client, content, oid_of
from tests.support.postgres import TestPostgres
from tests.support.stack import TOWPATH, Stack, processes_of, running_stack
from tests.support.waiting import STEP_SECONDS, until

FACADES = 2
SERVICES = ("postgres", "storage", "locks", "facade")
BIG = 32 * 1024 * 1024


@pytest.fixture
def stack() -> Iterator[Stack]:
    """A `towpath up --demo` for one test, which may stop it."""
    with running_stack("--demo") as own:
        yield own


@pytest.fixture(scope="module")
def lasting() -> Iterator[Stack]:
    """A `towpath up --demo` for the tests that leave it running."""
    with running_stack("--demo") as own:
        yield own


def alice(stack: Stack) -> Client:
    """Alice over HTTP."""
    return Client(stack.base_url, "alice", stack.tokens["alice"])


def everything(stack: Stack) -> list[psutil.Process]:
    """Return all processes of a stack but the supervisor."""
    assert stack.process is not None
    return psutil.Process(stack.process.pid).children(recursive=True)


def stop(stack: Stack, signal_number: int) -> None:
    """Stop it as a terminal or an init system does, and check that all of it ends with exit status 0."""
    assert stack.process is not None
    processes = everything(stack)
    os.killpg(stack.process.pid, signal_number)
    assert stack.process.wait(STEP_SECONDS) == 0
    _, alive = psutil.wait_procs(processes, timeout=STEP_SECONDS)
    assert not alive


@pytest.mark.usefixtures("relayed")
async def test_stopped_with_a_download_in_progress(stack: Stack) -> None:
    """SIGTERM ends it also while a client reads nothing; new clients are refused from then on."""
    data = content("slow", BIG)
    async with alice(stack) as client:
        assert (await client.upload(data)).status_code == 200
        action = await client.action("download", oid_of(data), len(data))
    assert action is not None
    url = urlsplit(action.href)
    assert url.hostname is not None
    assert url.port is not None
    with socket.create_connection((url.hostname, url.port), timeout=STEP_SECONDS) as connection:
        head = [f"GET {url.path} HTTP/1.1", f"Host: {url.netloc}"]
        head += [f"{name}: {value}" for name, value in action.header.items()]
        connection.sendall("\r\n".join([*head, "", ""]).encode())
        assert connection.recv(1024).startswith(b"HTTP/1.1 200 ")
        stop(stack, signal.SIGTERM)
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection((url.hostname, url.port), timeout=STEP_SECONDS)


async def test_stopped_and_started(lasting: Stack) -> None:
    """Ctrl-C ends it cleanly; the next start makes no second demo and keeps the tokens that work."""
    before, lines = lasting.tokens, len(lasting.lines)
    lasting.towpath("token", "revoke", "alice", "demo")
    stop(lasting, signal.SIGINT)
    assert len(lasting.lines) == lines
    lasting.start()
    assert len(lasting.towpath("token", "list", "alice")) == 1
    assert lasting.tokens["bob"] == before["bob"]
    assert lasting.tokens["alice"] != before["alice"], "a token that does not work is made anew"
    async with alice(lasting) as client:
        assert (await client.locks()).status_code == 200


@pytest.mark.parametrize(
    "seconds", [0.5, pytest.param(1.5, marks=pytest.mark.drill), pytest.param(3.0, marks=pytest.mark.drill)]
)
def test_stopped_while_it_starts(tmp_path: Path, seconds: float) -> None:
    """A stop during the first start is heeded, whatever it was doing; the next start does the rest."""
    data = tmp_path / "var"
    process = subprocess.Popen(
        [*TOWPATH, "up", "--data", str(data), "--listen", "127.0.0.1:0"],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    time.sleep(seconds)
    process.send_signal(signal.SIGTERM)
    output, _ = process.communicate(timeout=STEP_SECONDS)
    # Before it has taken charge of the signal, Python ends by it; nothing was started until then.
    assert process.returncode == 0 or (process.returncode == -signal.SIGTERM and not (data / "postgres").exists())
    assert output == b""
    assert not processes_of(data)


async def test_each_child_is_started_again(lasting: Stack) -> None:
    """A child that is killed is reported and comes back, with all that was acknowledged."""
    async with alice(lasting) as client:
        for name in SERVICES:
            data = content(f"before {name} dies", 10_000)
            assert (await client.upload(data)).status_code == 200
            assert (await client.lock(f"children/{name}.bin")).status_code == 201
            old = lasting.kill_service(name)
            assert len(old) == (FACADES if name == "facade" else 1)

            def is_back(name: str = name, old: list[psutil.Process] = old) -> bool:
                return len(set(lasting.services(name)) - set(old)) == len(old)

            await until(is_back, f"{name} is started again")
            assert (await client.download(oid_of(data), len(data))).content == data
            assert f"{name} died and is started again" in lasting.log()
        paths = {path for lock in await client.all_locks() if (path := lock["path"]).startswith("children/")}
    assert paths == {f"children/{name}.bin" for name in SERVICES}


async def test_while_one_facade_is_gone_the_other_serves(lasting: Stack) -> None:
    """Whoever connects meanwhile is answered, and waits for nothing."""
    [killed, other] = lasting.services("facade")
    killed.kill()
    for number in range(20):
        # Each with connections of its own.
        async with alice(lasting) as client:
            assert (await client.lock(f"{number}.bin")).status_code == 201
    assert other.is_running()
    await until(lambda: len(lasting.services("facade")) == FACADES, "the other one is started again")


@pytest.mark.drill
async def test_a_part_of_postgres_outlives_it(stack: Stack) -> None:
    """While a process of a Postgres that was killed still runs, the next one is waited with, and nothing given up."""
    old = stack.service("postgres")
    [part] = [child for child in old.children() if "checkpointer" in " ".join(child.cmdline())]
    # As one that waits for a disk: it does not notice that the others are gone.
    part.suspend()
    try:
        old.kill()
        await until(lambda: "parts of the earlier postgres still run" in stack.log(), "the part is found")
        # Longer than all the pauses between the starts after which it is given up.
        await asyncio.sleep(6)
        assert stack.services("postgres") in ([], [old])
    finally:
        part.resume()
    await until(lambda: stack.services("postgres") not in ([], [old]), "postgres is started again")
    assert stack.log().count("postgres died and is started again") == 1
    async with alice(stack) as client:
        assert (await client.lock("kept.bin")).status_code == 201


@pytest.mark.drill
async def test_tables_of_an_earlier_version(stack: Stack) -> None:
    """A start on the tables of the version before migrates them; older data are tried in test_released."""
    postgres = TestPostgres(EmbeddedPostgres(stack.data / "postgres", stack.data / "run"))
    engine = create_operator_engine(postgres.url("towpath"), "test")
    async with engine.begin() as connection:
        await connection.execute(text("SET LOCAL search_path = locks"))
        await connection.run_sync(_undo_last_migration)
    await engine.dispose()
    assert not await tables_are_newest(postgres.postgres)
    stop(stack, signal.SIGTERM)
    stack.start()
    assert await tables_are_newest(postgres.postgres)
    async with alice(stack) as client:
        assert (await client.lock("migrated.bin")).status_code == 201


def _undo_last_migration(connection: Connection) -> None:
    config = migrations._config(SCHEMA)
    config.attributes["connection"] = connection
    command.downgrade(config, "-1")


async def test_killed_supervisor(stack: Stack) -> None:
    """Services must not outlive a `towpath up` that is killed alone, and the next start waits for their end."""
    assert stack.process is not None
    data, before = content("before the supervisor dies", 10_000), stack.demo
    async with alice(stack) as client:
        assert (await client.upload(data)).status_code == 200
    orphans = everything(stack)
    stack.process.kill()
    stack.process.wait(STEP_SECONDS)
    stack.start()
    assert stack.demo == before
    _, alive = psutil.wait_procs(orphans, timeout=STEP_SECONDS)
    assert not alive
    async with alice(stack) as client:
        assert (await client.download(oid_of(data), len(data))).content == data
    assert stack.stop() == 0


@pytest.mark.drill
async def test_killed_altogether(stack: Stack) -> None:
    """After a kill of everything at once, the next start needs no help, also when the process id is another's now."""
    data = content("before everything dies", 10_000)
    async with alice(stack) as client:
        assert (await client.upload(data)).status_code == 200
        assert (await client.lock("kept.bin")).status_code == 201
    user = stack.service("postgres").uids().real
    stack.kill()
    # As in a container that starts anew, or whose first process does not ask how others ended.
    another = await asyncio.create_subprocess_exec("sleep", "3600", user=user)
    try:
        for file in (stack.data / "postgres" / "postmaster.pid", stack.data / "run" / ".s.PGSQL.5432.lock"):
            first, rest = file.read_text().split("\n", 1)
            assert first.isdigit()
            file.write_text(f"{another.pid}\n{rest}")
        await asyncio.to_thread(stack.start)
    finally:
        another.kill()
        await another.wait()
    assert "postgres died" not in stack.log()
    async with alice(stack) as client:
        assert (await client.download(oid_of(data), len(data))).content == data
        assert [lock["path"] for lock in await client.all_locks()] == ["kept.bin"]
