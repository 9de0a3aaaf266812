"""`towpath repo import` from a real lfs-test-server that people still push to."""

import os
import random
import re
import shutil
import signal
import subprocess
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil
import pytest

from tests.support.git import Clone, Workspace
from tests.support.http import content, oid_of
from tests.support.lfs_test_server import ADMIN, LfsTestServer, lfs_test_server
from tests.support.pointers import commit_pointers
from tests.support.transfer import Target, whole_second
from tests.support.waiting import LONG_SECONDS, blocking_until

OBJECTS = 2_000
OWNERS = {"carol": 80, "dave": 70, "Erin Example": 50}
KILLS = 2


@pytest.fixture
def old(tmp_path: Path) -> Iterator[LfsTestServer]:
    """The server to move from."""
    with lfs_test_server(tmp_path / "old") as server:
        yield server


def _workspace(folder: Path, server: LfsTestServer, user: str = ADMIN) -> Workspace:
    return Workspace(folder, user, server.passwords[user], origin=server.origin)


def _downloads(server: LfsTestServer) -> int:
    """Return how many objects the server was asked for."""
    return len(re.findall(r"method=GET url=\S*/objects/", (server.data / "server.log").read_text(errors="replace")))


@contextmanager
def _pushing(clone: Clone, pushed: dict[str, bytes]) -> Iterator[None]:
    """Let somebody push large files all the time, with the real client."""
    done = threading.Event()
    failures: list[BaseException] = []

    def push() -> None:
        try:
            number = 0
            while not done.is_set():
                name, data = f"pushed/{number}.dat", content(f"pushed {number} {clone.path}", 3_000)
                clone.commit({name: data})
                clone.git("push", "--quiet", "origin", "main")
                pushed[name] = data
                number += 1
        except BaseException as error:
            failures.append(error)

    thread = threading.Thread(target=push)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join(LONG_SECONDS)
    assert not thread.is_alive()
    if failures:
        raise failures[0]


def _kill(process: subprocess.Popen[bytes]) -> None:
    """Kill a command with all that it has started, at once."""
    family = [psutil.Process(process.pid), *psutil.Process(process.pid).children(recursive=True)]
    for each in family:
        with suppress(psutil.NoSuchProcess):
            each.send_signal(signal.SIGKILL)
    process.wait(LONG_SECONDS)
    psutil.wait_procs(family[1:], timeout=LONG_SECONDS)


@pytest.mark.drill
async def test_a_move_from_lfs_test_server_while_people_push(
    old: LfsTestServer, target: Target, remote: Path, tmp_path: Path
) -> None:
    """Killed twice, resumed, and repeated until cut-over: every hash, every lock and every time is as it was there."""
    files = {f"old/{number}.dat": content(f"old {number}", 1 + number * 7 % 4_000) for number in range(OBJECTS - 3)}
    files |= {f"old/large{number}.dat": content(f"large {number}", 1_500_000 + number) for number in range(3)}
    await old.fill(list(files.values()))
    for owner, count in OWNERS.items():
        await old.lock([f"old/{owner}/{number}.dat" for number in range(count)], owner)
    for user in ("caroline", "dave"):
        target.add_user(user)
    work = _workspace(tmp_path / "work", old)
    work.git("init", "--quiet", "--bare", "--initial-branch=main", remote)
    commit_pointers(work, remote, files)
    clone = _clone(work, remote, old.url())
    owners = ("--map-owner", "carol=caroline", "--map-owner", "Erin Example=bob")
    asked = ("--from", old.url(), "--git", remote, *owners)

    said = target.refused("import", "--from", old.url(), "--git", remote, environment=work.environment)
    assert "these owners of locks are no users here: Erin Example, carol" in said
    assert not target.objects()

    pushed: dict[str, bytes] = {}
    with _pushing(clone, pushed):
        for _ in range(KILLS):
            goal = _downloads(old) + random.SystemRandom().randint(50, 500)
            process = subprocess.Popen(  # noqa: ASYNC220 - nothing else runs in this loop
                target.command("import", *asked, "--jobs", "2"), env={**os.environ, **work.environment}
            )
            blocking_until(lambda: _downloads(old) > goal or process.poll() is not None, "objects arrive")  # noqa: B023
            assert process.poll() is None, "it ended before it could be killed"
            _kill(process)
        held = len(target.objects())
        assert 0 < held < OBJECTS
        report = target.run("import", *asked, environment=work.environment)
        assert report["held_count"] >= held
        assert report["copied_count"] == report["object_count"] - report["held_count"] > 0
    last = target.run("import", *asked, environment=work.environment)
    assert not last["problems"]
    assert last["locks"]["kept_count"] == last["locks"]["there_count"] == sum(OWNERS.values())

    downloads = _downloads(old)
    again = target.run("import", *asked, environment=work.environment)
    assert again["copied_count"] == 0
    assert again["held_count"] == again["object_count"] == len(files) + len(pushed)
    assert _downloads(old) == downloads
    expected = {oid_of(data): len(data) for data in (*files.values(), *pushed.values())}
    assert target.objects() == expected

    ours = {"carol": "caroline", "dave": "dave", "Erin Example": "bob"}
    there = {lock["path"]: (ours[lock["owner"]["name"]], whole_second(lock["locked_at"])) for lock in await old.locks()}
    assert len(there) == sum(OWNERS.values())
    assert target.locks() == there

    clone.git("config", "--file", ".lfsconfig", "lfs.url", target.url)
    clone.git("config", "--unset", "lfs.url")
    clone.git("add", ".lfsconfig")
    clone.git("commit", "--quiet", "--message=Large files are on Towpath")
    clone.git("push", "--quiet", "--no-verify", "origin", "main")
    shutil.rmtree(old.objects)
    _check_fresh_clone(target, remote, tmp_path / "alice", {**files, **pushed})


def _clone(work: Workspace, remote: Path, url: str) -> Clone:
    """Clone without the large files that are there."""
    work.git("config", "--global", "filter.lfs.smudge", "git-lfs smudge --skip -- %f")
    work.git("config", "--global", "filter.lfs.process", "git-lfs filter-process --skip")
    work.git("config", "--global", "lfs.locksverify", "false")
    clone = work.clone(remote, lfs_url=url)
    clone.lfs("track", "pushed/*.dat")
    clone.commit({}, "Track large files")
    return clone


def _check_fresh_clone(target: Target, remote: Path, home: Path, files: Mapping[str, bytes]) -> None:
    alice = Workspace(home, "alice", target.stack.tokens["alice"], origin=target.stack.origin)
    alice.git("clone", "--quiet", "--branch=main", remote, "fresh", seconds=LONG_SECONDS)
    fresh = Clone(alice, alice.home / "fresh")
    assert f"Endpoint={target.url} " in fresh.lfs("env").stdout
    fresh.lfs("fetch", "--all")
    assert "Git LFS fsck OK" in fresh.fsck()
    stored = {path.name: path for path in (fresh.path / ".git/lfs/objects").rglob("*") if path.is_file()}
    assert stored.keys() == {oid_of(data) for data in files.values()}
    assert all(oid_of(path.read_bytes()) == oid for oid, path in stored.items())
