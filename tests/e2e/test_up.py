"""`towpath up`: how it starts, what it makes, what it says, and what it refuses."""

import asyncio
import os
import re
import socket
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import psutil
import pytest

from tests.e2e.bytes_at_rest import name_of
from tests.support.commands import finished
from tests.support.git import Workspace
from tests.support.http import Client, content, oid_of
from tests.support.postgres import TestPostgres
from tests.support.stack import TOWPATH, Stack, processes_of, running, running_stack
from tests.support.waiting import START_SECONDS, STEP_SECONDS


@pytest.fixture(scope="module")
def own() -> Iterator[Stack]:
    """A `towpath up --demo` for this module, which its tests leave running."""
    with running_stack("--demo") as stack:
        yield stack


def refused(*arguments: str, environment: dict[str, str] | None = None) -> str:
    """Run a `towpath up` that does not come up, and return the message that it ends with."""
    result = finished([*TOWPATH, "up", *arguments], env={**os.environ, **(environment or {})}, seconds=START_SECONDS)
    assert (result.returncode, result.stdout) == (1, "")
    message = result.stderr.splitlines()[-1]
    assert message.startswith("towpath: ")
    return message.removeprefix("towpath: ")


def mode(path: Path) -> int:
    """Return who may do what with a file."""
    return path.stat().st_mode & 0o777


def test_says_one_line_when_it_answers(own: Stack) -> None:
    """The ready line is all that standard output gets, and holds when it is printed."""
    assert own.lines == [f"Towpath is ready: {own.origin}\n"]
    assert re.fullmatch(r"http://127\.0\.0\.1:[1-9]\d*", own.origin)
    # Each on a connection of its own, which any of the facades may take.
    answers = [httpx.get(f"{own.origin}/readyz", trust_env=False, timeout=STEP_SECONDS) for _ in range(20)]
    assert {answer.status_code for answer in answers} == {200}


def test_data_folder_is_its_owners(own: Stack) -> None:
    """The folder and its secrets are for their owner alone, and the token is the administrator's."""
    assert {mode(own.data), mode(own.data / "run"), mode(own.data / "storage")} == {0o700}
    assert {mode(own.data / name) for name in ("admin-token", "signing-key", "demo.json")} == {0o600}
    [administrator] = [user for user in own.towpath("user", "list") if user["administrator"]]
    assert administrator["name"] == "admin"


def test_every_service_is_a_process_on_unix_sockets(own: Stack) -> None:
    """Postgres, storage, locks and facade are processes of their own; only the facade's port is open."""
    services = {name: own.service(name) for name in ("postgres", "storage", "locks", "facade")}
    assert len({process.pid for process in services.values()}) == 4
    ports = {
        connection.laddr.port
        for process in services.values()
        for connection in process.net_connections(kind="inet")
        if connection.status == psutil.CONN_LISTEN
    }
    assert ports == {urlsplit(own.origin).port}


def test_demo(own: Stack) -> None:
    """The demo is private: alice may write, bob may read, and write on his branch only."""
    assert own.demo["base_url"] == f"{own.origin}/demo/assets"
    assert set(own.demo["users"]) == {"alice", "bob"}
    grants = {(grant["user"], grant["role"], *grant["ref_patterns"]) for grant in own.towpath("access", "demo/assets")}
    assert grants == {("alice", "write"), ("bob", "read"), ("bob", "write", "refs/heads/bob")}
    [repository] = [entry for entry in own.towpath("repo", "list") if entry["name"] == "demo/assets"]
    assert repository["public"] is False


def test_demo_lines(own: Stack, tmp_path: Path) -> None:
    """The lines that it prints work as they stand, with the real git-lfs in an empty folder, and show no token."""
    assert not [user for user, token in own.tokens.items() if token in own.log()]
    lines = [line.removeprefix("    ") for line in own.log().splitlines() if line.startswith("    git lfs lock")]
    assert len(lines) == 1
    text = own.log().partition("Try it with git")[2].partition("Tokens: ")[0]
    script = [line.removeprefix("    ") for line in text.splitlines() if line.startswith("    ")]
    computer = Workspace(tmp_path / "home", "somebody", None, origin=own.origin)
    result = finished(["sh", "-e", "-c", "\n".join(script)], cwd=computer.home, env=computer.environment)
    assert result.returncode == 0, result.stderr
    [stored] = [entry for entry in own.towpath("object", "list", "demo/assets") if entry["size"] == 1_000_000]
    assert "big.bin" in result.stdout.splitlines()[-1]
    [lock] = own.towpath("lock", "list", "demo/assets")
    assert (lock["path"], lock["owner"]) == ("big.bin", "alice")
    assert name_of(own, stored["oid"]) is not None


def test_second_one_is_refused(own: Stack) -> None:
    """A second `up` on the same data is told who has it, and the first is left in peace."""
    assert own.process is not None
    message = refused("--data", str(own.data), "--listen", "127.0.0.1:0")
    assert message == f"{own.data.resolve()}: another `towpath up` works on it (process {own.process.pid})"
    assert httpx.get(f"{own.origin}/readyz", trust_env=False, timeout=STEP_SECONDS).status_code == 200


def test_port_in_use(own: Stack, tmp_path: Path) -> None:
    """A port that is taken is told, and what to type instead."""
    host = urlsplit(own.origin).netloc
    message = refused("--data", str(tmp_path / "var"), "--listen", host)
    told, _, hint = message.partition("; ")
    assert told == f"cannot listen on {host}: address already in use"
    option = re.match(r"`towpath up --listen (127\.0\.0\.1:\d+)`", hint)
    assert option is not None
    assert option[1] != host
    assert f'`make run ARGS="--listen {option[1]}"`' in hint


@pytest.mark.drill
def test_setting_that_cannot_be(tmp_path: Path) -> None:
    """A service that cannot start is given up after some attempts, and everything ends with it."""
    message = refused(
        "--data", str(tmp_path / "var"), "--listen", "127.0.0.1:0", environment={"TOWPATH_BATCH_OBJECTS": "many"}
    )
    assert re.fullmatch(
        r"facade died 6 times within \d+ s, the last time with exit status 1: "
        r"TOWPATH_BATCH_OBJECTS: input should be a valid integer.*",
        message,
    )
    assert not processes_of(tmp_path / "var")


async def test_an_unusual_place(tmp_path: Path) -> None:
    """The data path, the address, the public address and the working directory may be any.

    The path is too long for sockets, with spaces and signs that mean something in URLs; the address is of IPv6; the
    actions and the demo name the public one; and the working directory has a package of the name of Towpath's own.
    """
    if not socket.has_ipv6:
        pytest.skip("this host has no IPv6")
    (tmp_path / "services").mkdir()
    (tmp_path / "services" / "__init__.py").write_text("raise SystemExit('not Towpath')")
    data = tmp_path / "a long, strange path 100% &?#=ü" / ("x" * 90)
    data.parent.mkdir()
    public = "https://lfs.example.org/files"
    command = (sys.executable, "-P", *TOWPATH[1:])
    unusual = Stack(data, ("--demo", "--public-url", f"{public}/"), listen="[::1]:0", command=command, folder=tmp_path)
    with running(unusual) as stack:
        assert re.fullmatch(r"http://\[::1\]:\d+", stack.origin)
        assert stack.demo["base_url"] == f"{public}/demo/assets"
        async with Client(stack.base_url, "alice", stack.tokens["alice"]) as client:
            data_sent = content("strange", 1000)
            action = await client.action("upload", oid_of(data_sent), len(data_sent))
            assert action is not None
            assert action.href.startswith(f"{public}/demo/assets/")
            own = replace(action, href=action.href.replace(public, stack.origin))
            assert (await client.put(own, data_sent, len(data_sent))).status_code == 200
        assert len(stack.towpath("object", "list", "demo/assets")) == 1
        assert (data / "run").readlink().is_dir()


def migrate(url: str) -> list[str]:
    """Run `towpath migrate`, and return the lines that it prints."""
    result = finished([*TOWPATH, "migrate", "--database-url", url])
    assert result.returncode == 0, result.stderr
    return result.stdout.splitlines()


async def test_database_of_the_operators_own(postgres: TestPostgres, tmp_path: Path) -> None:
    """With --database-url no Postgres is started, and the tables lie there; `towpath migrate` had made them."""
    url = (await postgres.create_database(empty=True)).get_secret_value()
    lines = await asyncio.to_thread(migrate, url)
    assert lines == [f"{name}: the tables are at their newest version" for name in ("storage", "locks")]
    stack = Stack(tmp_path / "var", ("--demo",), {"TOWPATH_DATABASE_URL": url})
    stack.start()
    try:
        assert not (stack.data / "postgres").exists()
        async with Client(stack.base_url, "alice", stack.tokens["alice"]) as client:
            assert (await client.lock("a.bin")).status_code == 201
    finally:
        stack.stop()
    database = url.partition("@/")[2].partition("?")[0]
    assert await postgres.execute("SELECT path FROM locks.locks", database=database) == "a.bin"


def test_database_that_is_not_there(tmp_path: Path) -> None:
    """A database that does not answer is told."""
    url = f"postgresql://towpath@/towpath?host={tmp_path}"
    message = refused("--data", str(tmp_path / "var"), "--listen", "127.0.0.1:0", "--database-url", url)
    assert message.startswith("the migration of ")
