"""Garbage and the real git-lfs: what is collected, and how it comes back."""

import json
import random
import subprocess
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.support.commands import finished
from tests.support.git import Clone, Workspace, shared_repository
from tests.support.http import content, oid_of
from tests.support.stack import TOWPATH, Stack
from tests.support.waiting import LONG_SECONDS, STEP_SECONDS, blocking_until

REPOSITORY = "demo/assets"
PUSHES = 200
COLLECTIONS = 50
PUSHERS = 4
# Longer than a push takes between its announcement and its ref, on a machine under load too.
GRACE = "30s"


def gc(stack: Stack, remote: Path, *arguments: str) -> dict[str, int]:
    """Run `towpath gc` on a git repository and return what it tells."""
    told: dict[str, int] = stack.towpath("gc", REPOSITORY, "--git", str(remote), *arguments, seconds=LONG_SECONDS)
    return told


@pytest.fixture
def deleted(alices: Clone, stack: Stack, remote: Path) -> bytes:
    """The bytes of an object of a branch that was deleted, and is old enough; the object of `main` stays."""
    data = content("to be collected", 50_000)
    alices.commit({"a.dat": content("to be kept", 50_000)})
    alices.git("push", "--quiet", "origin", "main")
    alices.git("checkout", "--quiet", "-b", "b")
    alices.commit({"b.dat": data})
    alices.git("push", "--quiet", "origin", "b")
    alices.git("push", "--quiet", "origin", "--delete", "b")
    blocking_until(lambda: oid_of(data) in {entry["oid"] for entry in _listed(stack, remote)}, "the object is garbage")
    return data


def _listed(stack: Stack, remote: Path) -> list[dict[str, str]]:
    result = finished(
        [*TOWPATH, "gc", REPOSITORY, "--git", str(remote), "--grace=0", "--list", "--json", "--data", str(stack.data)]
    )
    assert result.returncode == 0, result.stderr
    return list(json.loads(result.stdout)["objects"])


def test_a_deleted_branch_is_collected_and_a_push_brings_it_back(
    deleted: bytes, alices: Clone, bob: Workspace, remote: Path, stack: Stack
) -> None:
    """A clone of the rest is whole, and a person who pushes the branch again need not know of the collection."""
    assert gc(stack, remote, "--grace=0", "--most=100%", "--apply")["removed_count"] >= 1
    # Objects of other tests in this repository may be old enough by now.
    assert oid_of(deleted) not in {entry["oid"] for entry in _listed(stack, remote)}
    rest = bob.clone(remote, "rest", lfs_url=stack.base_url)
    assert (rest.path / "a.dat").read_bytes() == content("to be kept", 50_000)
    assert "Git LFS fsck OK" in rest.fsck()
    alices.git("push", "--quiet", "origin", "b")
    assert oid_of(deleted) not in {entry["oid"] for entry in _listed(stack, remote)}
    clone = bob.clone(remote, lfs_url=stack.base_url, branch="b")
    assert (clone.path / "b.dat").read_bytes() == deleted
    assert "Git LFS fsck OK" in clone.fsck()


@pytest.mark.drill
def test_one_of_several_collects_once_a_week(deleted: bytes, remote: Path, stack: Stack, tmp_path: Path) -> None:
    """Of two commands that stay, one collects, and both are there until they are stopped."""
    arguments = ("gc", REPOSITORY, "--git", str(remote), "--grace=0", "--most=100%", "--apply", "--every=7d", "--json")
    outputs = [tmp_path / f"{number}.json" for number in range(2)]
    started = []
    for output in outputs:
        with output.open("w") as file, output.with_suffix(".errors").open("w") as errors:
            command = [*TOWPATH, *arguments, "--data", str(stack.data)]
            started.append(subprocess.Popen(command, stdout=file, stderr=errors))
    try:
        # One asks and tells that it is done, and the other one asks at least once.
        asked = "AdminService/TakeCollectionTurn"
        blocking_until(lambda: stack.log().count(asked) >= 3, "both have asked")
        blocking_until(lambda: any(output.read_text().endswith("}\n") for output in outputs), "one has collected")
        assert [process.poll() for process in started] == [None, None]
    finally:
        for process in started:
            process.terminate()
        statuses = [process.wait(STEP_SECONDS) for process in started]
    assert statuses == [1, 1]
    told = [json.loads(text) for output in outputs if (text := output.read_text())]
    assert [result["removed_count"] > 0 for result in told] == [True]
    for output in outputs:
        assert "stopped" in output.with_suffix(".errors").read_text()
    assert oid_of(deleted) not in {entry["oid"] for entry in _listed(stack, remote)}


class Drill:
    """People who push branches of shared objects and delete them, and collectors that are killed now and then."""

    def __init__(self, stack: Stack, remote: Path, computer: Callable[[str], Workspace]) -> None:
        self._stack = stack
        self._remote = remote
        self.first = shared_repository(computer("alice"), remote, lfs_url=stack.base_url)
        # A collection without any retained object is refused.
        self.first.commit({"first.dat": content("drill", 3_000)})
        self.first.git("push", "--quiet", "origin", "main")
        self._chance = random.Random(7)  # noqa: S311 - no secret
        # Few, so that most pushes name objects that others have pushed or that were collected.
        self._contents = [content(f"drill {number}", 3_000 + number) for number in range(60)]
        self.removed = 0

    def push_all(self, number: int) -> None:
        """Push a share of all branches, each with some of the objects, and delete some of them again."""
        clone = self.first.workspace.clone(self._remote, f"pusher-{number}", lfs_url=self._stack.base_url)
        for step in range(PUSHES // PUSHERS):
            branch = f"p{number}-{step}"
            clone.git("checkout", "--quiet", "-B", branch, "origin/main")
            chosen = self._chance.sample(self._contents, 3)
            clone.commit({f"{place}.dat": data for place, data in enumerate(chosen)}, f"{branch}")
            clone.git("push", "--quiet", "origin", branch)
            if step >= 3 and self._chance.random() < 0.7:
                clone.git("push", "--quiet", "origin", "--delete", f"p{number}-{step - 3}", check=False)

    def collect(self) -> None:
        """Collect again and again; every third collector is killed at some moment. One that is refused does not count.

        The refs change all the time, and what a killed collector has begun may not have ended yet.
        """
        done = 0
        while done < COLLECTIONS:
            status, output, errors = self._run(seconds=self._chance.uniform(0.5, 3) if done % 3 == 2 else None)
            if status is None:
                done += 1
            elif status == 0:
                self.removed += json.loads(output)["removed_count"]
                done += 1
            else:
                assert "its refs changed" in errors or "is being collected" in errors, errors

    def _run(self, *, seconds: float | None) -> tuple[int | None, str, str]:
        """Run a collector, and return its status and output; the status is None if it was killed after `seconds`."""
        arguments = ("gc", REPOSITORY, "--git", str(self._remote), "--apply", "--most=100%", f"--grace={GRACE}")
        process = subprocess.Popen(
            [*TOWPATH, *arguments, "--json", "--data", str(self._stack.data)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        try:
            output, errors = process.communicate(timeout=seconds or LONG_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            return (None, *process.communicate())
        return process.returncode, output, errors


@pytest.mark.drill
def test_nothing_that_a_ref_names_is_lost(computer: Callable[[str], Workspace], remote: Path, stack: Stack) -> None:
    """200 pushes of shared objects amid 50 collections: every branch that is left can be cloned whole."""
    drill = Drill(stack, remote, computer)
    with ThreadPoolExecutor(PUSHERS + 1) as pool:
        work = [pool.submit(drill.push_all, number) for number in range(PUSHERS)]
        work.append(pool.submit(drill.collect))
        for one in work:
            one.result()
    # With the pushes over, a collection may take all that no ref names.
    workspace = drill.first.workspace
    final = gc(stack, remote, "--grace=0", "--most=100%", "--apply")
    assert drill.removed + final["removed_count"] > 0
    refs = workspace.git("for-each-ref", "--format=%(refname:short)", "refs/heads", cwd=remote).stdout.split()
    assert len(refs) > PUSHERS
    for number, ref in enumerate(refs):
        clone = workspace.clone(remote, f"check-{number}", lfs_url=stack.base_url, branch=ref)
        assert "Git LFS fsck OK" in clone.fsck(), ref
