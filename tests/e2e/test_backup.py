"""`towpath backup`, `restore` and `check` as an operator runs them."""

import asyncio
import os
import shutil
import subprocess
import tempfile
from asyncio.subprocess import DEVNULL
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

import tests.support.stack as stacks
from tests.e2e.bytes_at_rest import overwrite, remove, stored
from tests.support.commands import finished
from tests.support.folders import temporary_folder
from tests.support.http import Client, content, oid_of
from tests.support.stack import TOWPATH, Stack, copy_data, processes_of, running_stack
from tests.support.storage import stored_path
from tests.support.waiting import STEP_SECONDS, until

DATA = {name: content(name, size) for name, size in (("one", 1), ("two", 70_000), ("three", 3_000_000))}


@pytest.fixture
def own() -> Iterator[Stack]:
    """A `towpath up --demo` for one test."""
    with running_stack() as running:
        yield running


@pytest.fixture(scope="module")
def lasting() -> Iterator[Stack]:
    """A `towpath up --demo` for the tests that do not stop it."""
    with running_stack() as running:
        yield running


@pytest.fixture
async def alice(own: Stack) -> AsyncIterator[Client]:
    """Alice, who may write."""
    async with Client(own.base_url, "alice", own.tokens["alice"]) as client:
        yield client


@pytest.fixture
async def alice_there(lasting: Stack) -> AsyncIterator[Client]:
    """Alice at the lasting stack."""
    async with Client(lasting.base_url, "alice", lasting.tokens["alice"]) as client:
        yield client


@pytest.fixture
def target() -> Iterator[Path]:
    """Return the folder of the backup, which the account of `towpath up` can reach."""
    with temporary_folder() as folder:
        folder.chmod(0o777)
        yield folder / "backup"


def towpath(stack: Stack, *arguments: str | Path, status: int = 0) -> list[str]:
    """Run a command without --json on the stack's data and return the lines of its standard output and error."""
    place = ("--storage", stack.bucket.url) if arguments[0] == "restore" and stack.bucket is not None else ()
    result = finished([*TOWPATH, *arguments, *place, "--data", stack.data])
    assert result.returncode == status, result.stderr
    return [*result.stdout.splitlines(), *result.stderr.splitlines()]


def wipe(stack: Stack) -> None:
    """Lose everything: the data folder, and the bucket's part that it had."""
    shutil.rmtree(stack.data)
    stack.bucket = stacks.new_bucket()


async def test_wiped_and_restored(own: Stack, alice: Client, target: Path) -> None:
    """After backup, wipe and restore every object and lock is back, and the old tokens open the door.

    A folder on which `towpath up` runs, or that holds anything, is restored over by no command.
    """
    for data in DATA.values():
        assert (await alice.upload(data)).status_code == 200
    for path in ("a.psd", "b/ö.psd"):
        assert (await alice.lock(path)).status_code == 201
    locks = await alice.all_locks()
    running = own.towpath("backup", str(target))
    assert (running["objects"], running["copied_objects"], running["lost"]) == (3, 3, [])
    assert "works on it" in towpath(own, "restore", target, status=1)[0]
    assert own.stop() == 0
    [line] = [line for line in towpath(own, "restore", target, status=1) if line.startswith("towpath: ")]
    assert "without objects" in line
    stopped = own.towpath("backup", str(target))
    assert (stopped["objects"], stopped["copied_objects"]) == (3, 0)
    wipe(own)

    assert "1" in " ".join(towpath(own, "restore", target, "--digest", running["digest"], status=1))
    lines = towpath(own, "restore", target, "--digest", stopped["digest"])
    assert "missing     0" in lines
    assert stored(own) == {oid_of(data) for data in DATA.values()}
    own.arguments = ()
    own.start()
    assert await alice.all_locks() == locks
    for data in DATA.values():
        assert (await alice.download(oid_of(data), len(data))).content == data
    assert (await alice.unlock(locks[0]["id"])).status_code == 200
    assert (await alice.upload(b"goes on")).status_code == 200
    assert [user["name"] for user in own.towpath("user", "list")] == ["admin", "alice", "bob"]
    assert own.towpath("check", "--hash")["objects"] == 4


@pytest.mark.drill
async def test_half_restored_does_not_start(own: Stack, alice: Client, target: Path) -> None:
    """After a restore that was refused for a corrupt object nothing starts; with a whole backup it goes on."""
    for data in DATA.values():
        assert (await alice.upload(data)).status_code == 200
    own.towpath("backup", str(target))
    own.stop()
    wipe(own)
    oid = oid_of(DATA["two"])
    copy = stored_path(target, oid)
    copy.write_bytes(DATA["two"][:-1] + b"!")
    assert any(oid in line for line in towpath(own, "restore", target, status=1))
    with pytest.raises(AssertionError, match="run `towpath restore` again"):
        own.start()
    assert own.process is not None
    assert own.process.wait(STEP_SECONDS) == 1
    copy.write_bytes(DATA["two"])
    towpath(own, "restore", target)
    own.arguments = ()
    own.start()
    assert (await alice.download(oid, len(DATA["two"]))).content == DATA["two"]


@pytest.mark.drill
@pytest.mark.parametrize("made", ["restoring", "postgres"])
async def test_a_restore_that_is_killed_at_its_beginning(own: Stack, alice: Client, target: Path, made: str) -> None:
    """Nothing starts on what is empty yet, and would be taken for new; the same command goes on with it."""
    assert (await alice.upload(DATA["one"])).status_code == 200
    own.towpath("backup", str(target))
    own.stop()
    wipe(own)
    place = ("--storage", own.bucket.url) if own.bucket is not None else ()
    restoring = await asyncio.create_subprocess_exec(
        *TOWPATH, "restore", target, "--data", own.data, *place, stdout=DEVNULL, stderr=DEVNULL
    )
    await until((own.data / made).exists, "it has begun")
    restoring.kill()
    await restoring.wait()
    with pytest.raises(AssertionError, match="run `towpath restore` again"):
        own.start()
    assert own.process is not None
    assert own.process.wait(STEP_SECONDS) == 1
    towpath(own, "restore", target)
    own.arguments = ()
    own.start()
    assert (await alice.download(oid_of(DATA["one"]), len(DATA["one"]))).content == DATA["one"]


async def test_a_new_push_heals(lasting: Stack, alice_there: Client) -> None:
    """A check names the object that is gone and its repository; pushing the file again brings it back."""
    data = DATA["two"]
    assert (await alice_there.upload(data)).status_code == 200
    name = remove(lasting, oid_of(data))
    # What nobody has read since it was lost, the server learns by --heal only: a batch does not look.
    lines = towpath(lasting, "check", "--hash", "--heal", status=1)
    assert f"missing: {name}: the bytes are not there (demo/assets)" in lines
    assert (await alice_there.upload(data)).status_code == 200
    towpath(lasting, "check", "--hash")
    assert (await alice_there.download(oid_of(data), len(data))).content == data


async def test_a_new_push_heals_what_is_corrupt(lasting: Stack, alice_there: Client) -> None:
    """Bytes of the right size that are wrong are missing to a batch once the check has told; others stay."""
    data, well = content("corrupt", 70_000), content("well", 70_000)
    for each in (data, well):
        assert (await alice_there.upload(each)).status_code == 200
    overwrite(lasting, oid_of(data), bytes(len(data)))
    found = lasting.towpath("check", "--hash", "--heal", check=False)
    assert (found["corrupt"], found["wanted"]) == (1, 1)
    assert await alice_there.action("upload", oid_of(well), len(well)) is None
    assert (await alice_there.upload(data)).status_code == 200
    assert await alice_there.action("upload", oid_of(data), len(data)) is None
    assert (await alice_there.download(oid_of(data), len(data))).content == data
    found = lasting.towpath("check", "--hash", "--heal")
    assert (found["findings"], found["wanted"]) == ([], 0)


def test_the_environment_of_the_stack(lasting: Stack, target: Path) -> None:
    """Without --data, the settings of the storage service say where everything lies."""
    sockets = lasting.data.resolve() / "run"
    environment = {
        "TOWPATH_STORAGE_DATABASE_URL": f"postgresql://towpath@/towpath?host={sockets}",
        "TOWPATH_STORAGE_URL": (lasting.data.resolve() / "storage").as_uri(),
    }
    result = finished([*TOWPATH, "backup", target], env={**os.environ, **environment})
    assert result.returncode == 0, result.stderr
    assert "digest" in result.stdout
    assert (target / "manifest.json").exists()


def test_where_no_data_are(tmp_path: Path) -> None:
    """A folder without data is told, and nothing is made."""
    result = finished([*TOWPATH, "check", "--data", tmp_path])
    assert (result.returncode, result.stdout) == (1, "")
    assert "no data of a `towpath up`" in result.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("source", ["none", "damaged"])
def test_a_restore_of_no_backup_makes_nothing(lasting: Stack, target: Path, tmp_path: Path, source: str) -> None:
    """It fails before there is a folder, so the next one, of the right backup, has nothing in its way."""
    folder = tmp_path / "none"
    if source == "damaged":
        towpath(lasting, "backup", target)
        folder = target
        next((folder / "index").rglob("locks.users")).write_text("nobody")
    data = tmp_path / "made-by-restore"
    command = [*TOWPATH, "restore", str(folder), "--data", str(data)]
    result = finished(command)
    assert (result.returncode, result.stdout) == (1, "")
    assert result.stderr.startswith("towpath: ")
    assert not data.exists()


def test_nothing_is_left_running() -> None:
    """A check of a stack that does not run leaves no process behind, also when it is told to stop."""
    with tempfile.TemporaryDirectory(prefix="towpath-test-") as folder:
        stack = Stack(Path(folder) / "var")
        copy_data(stack.data)
        stack.towpath("check")
        assert processes_of(stack.data) == []
        process = subprocess.Popen(
            [*TOWPATH, "check", "--data", stack.data], stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        while not (stack.data / "postgres" / "postmaster.pid").exists():
            assert process.poll() is None
        process.terminate()
        process.communicate(timeout=STEP_SECONDS)
        assert processes_of(stack.data) == []
