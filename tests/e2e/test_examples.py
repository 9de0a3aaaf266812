"""The examples for other services, run against a storage and a lock service on ports, with a secret."""

import hashlib
import json
import os
import re
import secrets
import shutil
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import trustme
from pydantic import SecretStr

from tests.support.certificates import certificate_files
from tests.support.commands import finished
from tests.support.inner_services import InnerServices, inner_services
from tests.support.outside import ROOT, Outside
from tests.support.postgres import TestPostgres
from tests.support.waiting import LONG_SECONDS

pytestmark = pytest.mark.drill

EXAMPLES = ROOT / "examples"
REPOSITORY = "studio/film"
SIZE = 3_000_000
LARGE = 64_000_000


@pytest.fixture(scope="module")
async def running(postgres: TestPostgres, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[InnerServices]:
    """Both services."""
    async with inner_services(await postgres.create_database(), tmp_path_factory.mktemp("inner")) as services:
        yield services


@pytest.fixture(scope="module")
async def alice(running: InnerServices) -> dict[str, str]:
    """Return the environment of alice's programs: the addresses, the secret, her token."""
    return {**running.caller_environment, "TOWPATH_TOKEN": await running.add_writer("alice", REPOSITORY)}


@pytest.fixture(scope="module")
async def bob(running: InnerServices, alice: dict[str, str]) -> dict[str, str]:
    """Return the environment of bob's programs."""
    return {**alice, "TOWPATH_TOKEN": await running.add_writer("bob", REPOSITORY)}


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Path | None:
    """The example of Node.js with what it needs, or None where there is no npm to bring it."""
    if shutil.which("npm") is None:
        return None
    folder = tmp_path_factory.mktemp("node") / "example"
    shutil.copytree(EXAMPLES / "node", folder, ignore=shutil.ignore_patterns("node_modules"))
    install = ["npm", "install", "--no-audit", "--no-fund", "--no-package-lock", "--prefer-offline", "--loglevel=error"]
    subprocess.run(install, cwd=folder, check=True, timeout=LONG_SECONDS)
    return folder


def run_node(folder: Path, environment: dict[str, str], *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the example of Node.js."""
    return finished(
        ["node", "take_lock.js", *arguments],
        cwd=folder,
        env={**os.environ, **environment, "TOWPATH_PROTO": str(ROOT / "proto")},
    )


def run(
    outside: Outside, environment: dict[str, str], example: str, *arguments: str, status: int = 0
) -> subprocess.CompletedProcess[bytes]:
    """Run an example of Python and expect its exit status."""
    done = outside.run(str(EXAMPLES / "python" / example), *arguments, environment=environment)
    assert done.returncode == status, done.stderr.decode()
    return done


def lines(done: subprocess.CompletedProcess[bytes]) -> list[list[str]]:
    """Return what an example printed: the fields of its lines."""
    return [line.split("\t") for line in done.stdout.decode().splitlines()]


def test_take_and_list_locks(
    running: InnerServices, bare: Outside, furnished: Outside, alice: dict[str, str], bob: dict[str, str]
) -> None:
    """One of two gets the lock, the other is told who holds it, and both see it listed; the log knows the example."""
    taken = run(furnished, alice, "take_lock.py", REPOSITORY, "scenes/opening.blend").stdout.decode()
    (lock_id,) = re.findall(r"^scenes/opening\.blend is now locked by alice, lock (\S+)$", taken)
    refused = run(furnished, bob, "take_lock.py", REPOSITORY, "scenes/opening.blend", status=3).stdout.decode()
    (since,) = re.findall(r"^scenes/opening\.blend is locked by alice since (\S+Z)$", refused)
    listed = lines(run(bare, bob, "list_locks.py", REPOSITORY))
    assert ["scenes/opening.blend", "alice", since, lock_id] in listed
    assert re.search(r'"request_id": ?"example-[0-9a-f]{32}"', running.log())


def test_write_and_read_an_object(bare: Outside, alice: dict[str, str], tmp_path: Path) -> None:
    """The examples must return all the bytes that they wrote, whole and by ranges, and for an empty object too."""
    data = secrets.token_bytes(SIZE)
    oid = hashlib.sha256(data).hexdigest()
    (tmp_path / "scene.blend").write_bytes(data)
    written = run(bare, alice, "write_object.py", REPOSITORY, str(tmp_path / "scene.blend"))
    assert written.stdout.decode() == f"{oid} {SIZE}\n"
    whole = run(bare, alice, "read_object.py", REPOSITORY, oid)
    assert whole.stdout == data
    assert whole.stderr.decode() == f"{SIZE} bytes in all\n"
    part = run(bare, alice, "read_object.py", REPOSITORY, oid, "--offset", "1000", "--length", "500")
    assert part.stdout == data[1000:1500]
    rest = run(bare, alice, "read_object.py", REPOSITORY, oid, "--offset", str(SIZE - 7))
    assert rest.stdout == data[-7:]
    beyond = run(bare, alice, "read_object.py", REPOSITORY, oid, "--offset", str(SIZE + 1), status=1)
    assert beyond.stderr.decode().startswith("OUT_OF_RANGE: ")
    (tmp_path / "empty").touch()
    nothing = run(bare, alice, "write_object.py", REPOSITORY, str(tmp_path / "empty")).stdout.decode().split()
    assert run(bare, alice, "read_object.py", REPOSITORY, nothing[0]).stdout == b""


async def test_a_read_goes_on_where_the_service_was_killed(
    running: InnerServices, bare: Outside, alice: dict[str, str], tmp_path: Path
) -> None:
    """The example asks the service that comes back for the bytes that are left, and prints each byte once."""
    data = secrets.token_bytes(LARGE)
    (tmp_path / "large").write_bytes(data)
    oid = run(bare, alice, "write_object.py", REPOSITORY, str(tmp_path / "large")).stdout.decode().split()[0]
    command = [str(bare.python), str(EXAMPLES / "python" / "read_object.py"), REPOSITORY, oid]
    with subprocess.Popen(  # noqa: ASYNC220 - the services run in processes of their own
        command, env=bare.environment(alice), stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as reading:
        assert reading.stdout is not None
        assert reading.stderr is not None
        begun = reading.stdout.read(1)
        # It cannot have got all: what nobody reads stays in a pipe and a window, which are smaller than the object.
        running.kill("storage")
        running.start("storage")
        rest = reading.stdout.read()
        headers = reading.stderr.read().decode().splitlines()
    assert reading.returncode == 0, headers
    assert begun + rest == data
    assert headers == [f"{LARGE} bytes in all"] * 2
    await running.wait_until_serving()


def test_reflection_lists_the_methods_and_calls_them(
    running: InnerServices, furnished: Outside, alice: dict[str, str]
) -> None:
    """Nothing is known but an address: the methods are listed, one is called in JSON, one as administrator."""
    methods = run(furnished, alice, "call_by_reflection.py", running.locks_address).stdout.decode().split()
    assert {"towpath.locks.v1.LockService/CreateLock", "grpc.health.v1.Health/Check"} <= set(methods)
    method, question = "towpath.access.v1.AccessService/Authenticate", {"token": alice["TOWPATH_TOKEN"]}
    asked = run(furnished, alice, "call_by_reflection.py", running.locks_address, method, json.dumps(question))
    assert json.loads(asked.stdout)["userName"] == "alice"
    administrator = {**alice, "TOWPATH_TOKEN": running.admin_token}
    method = "towpath.access.v1.AdminService/ListRepositories"
    asked = run(furnished, administrator, "call_by_reflection.py", running.locks_address, method)
    assert REPOSITORY in [repository["name"] for repository in json.loads(asked.stdout)["repositories"]]
    stream = "towpath.storage.v1.StorageService/ReadObject"
    refused = run(furnished, alice, "call_by_reflection.py", running.storage_address, stream, status=1)
    assert "streams are not called here" in refused.stderr.decode()
    stranger = {**alice, "TOWPATH_SERVICE_SECRET": "wrong"}
    refused = run(furnished, stranger, "call_by_reflection.py", running.locks_address, status=1)
    assert refused.stderr.decode().startswith("UNAUTHENTICATED: ")


@pytest.mark.parametrize(
    ("variable", "expected"),
    [("TOWPATH_SERVICE_SECRET", "UNAUTHENTICATED: the secret"), ("TOWPATH_TOKEN", "UNAUTHENTICATED: the token")],
)
def test_what_is_not_trusted_is_refused(bare: Outside, alice: dict[str, str], variable: str, expected: str) -> None:
    """A wrong secret and a wrong token end an example with one line that says which it was."""
    done = run(bare, {**alice, variable: "wrong"}, "list_locks.py", REPOSITORY, status=1)
    (line,) = done.stderr.decode().splitlines()
    assert line.startswith(expected)


def test_a_repository_that_one_may_not_know_is_refused(bare: Outside, alice: dict[str, str]) -> None:
    """The examples ask AccessService before they use an id."""
    done = run(bare, alice, "list_locks.py", "studio/secret", status=1)
    assert done.stderr.decode().startswith("NOT_FOUND: ")


async def test_the_examples_speak_mutual_tls(
    database_url: SecretStr, bare: Outside, node: Path | None, tmp_path: Path
) -> None:
    """With the certificates they are served, in both languages; without, the secret alone does not do."""
    files = certificate_files(tmp_path, "127.0.0.1", authority=trustme.CA())
    certificates = {f"TOWPATH_{name.upper()}": str(path) for name, path in files.items()}
    async with inner_services(database_url, tmp_path, certificates=certificates) as running:
        alice = {**running.caller_environment, "TOWPATH_TOKEN": await running.add_writer("alice", REPOSITORY)}
        (tmp_path / "small").write_bytes(b"small")
        oid = run(bare, alice, "write_object.py", REPOSITORY, str(tmp_path / "small")).stdout.decode().split()[0]
        assert run(bare, alice, "read_object.py", REPOSITORY, oid).stdout == b"small"
        if node is not None:
            taken = run_node(node, alice, REPOSITORY, "scenes/ending.blend")
            assert taken.returncode == 0, taken.stderr
        stranger = {name: value for name, value in alice.items() if name not in certificates}
        refused = run(bare, stranger, "list_locks.py", REPOSITORY, status=1)
        assert refused.stderr.decode().startswith(("UNAVAILABLE: ", "DEADLINE_EXCEEDED: "))


@pytest.mark.skipif(shutil.which("npm") is None, reason="npm is not installed")
def test_take_and_list_locks_from_node(node: Path, alice: dict[str, str], bob: dict[str, str]) -> None:
    """Node.js does the same from the .proto files alone."""
    taken = run_node(node, alice, REPOSITORY, "scenes/ending.blend")
    assert taken.returncode == 0, taken.stderr
    (lock_id,) = re.findall(r"^scenes/ending\.blend is now locked by alice, lock (\S+)$", taken.stdout, re.MULTILINE)
    assert f"scenes/ending.blend\talice\t{lock_id}\n" in taken.stdout
    refused = run_node(node, bob, REPOSITORY, "scenes/ending.blend")
    assert refused.returncode == 3, refused.stderr
    assert refused.stdout.startswith("the path is locked by alice\n")
    wrong = run_node(node, {**alice, "TOWPATH_SERVICE_SECRET": "wrong"}, REPOSITORY, "scenes/ending.blend")
    assert wrong.returncode == 1
    assert wrong.stderr.startswith("UNAUTHENTICATED: the secret")
