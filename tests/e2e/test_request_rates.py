"""The real git-lfs over its rate: it waits as it is told, and the push ends well."""

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.commands import finished
from tests.support.git import Workspace, shared_repository
from tests.support.http import Client, content
from tests.support.stack import TOWPATH, Stack, running_stack

RATE = "6/min"
BURST = 10
ATTEMPTS = 3


@pytest.fixture(scope="module")
def limited() -> Iterator[Stack]:
    """A `towpath up` whose users may make few requests, by the setting."""
    with running_stack(environment={"TOWPATH_REQUEST_RATE": RATE}) as stack:
        yield stack


async def _use_up(stack: Stack) -> None:
    """Make more requests at once than alice may."""
    async with Client(stack.base_url, "alice", stack.tokens["alice"]) as alice:
        answers = await asyncio.gather(*(alice.locks() for _ in range(3 * BURST)))
    assert 429 in {answer.status_code for answer in answers}


def _refused_batches(stack: Stack) -> int:
    """Return the number of batches that were answered 429."""
    lines = [json.loads(line) for line in stack.log().splitlines() if line.startswith("{")]
    return sum((line.get("operation"), line.get("status")) == ("batch", 429) for line in lines)


async def test_a_push_over_the_rate_ends_well(limited: Stack, tmp_path: Path) -> None:
    """git-lfs comes again after the Retry-After of its batch, and the check of locks is never refused."""
    workspace = Workspace(tmp_path / "alice", "alice", limited.tokens["alice"], origin=limited.origin)
    clone = await asyncio.to_thread(shared_repository, workspace, tmp_path / "remote.git", lfs_url=limited.base_url)
    for attempt in range(ATTEMPTS):
        await _use_up(limited)
        clone.commit({f"{attempt}.dat": content(f"limited {attempt}", 5_000)})
        pushed = await asyncio.to_thread(clone.git, "push", "origin", "main")
        assert "locksverify false" not in pushed.stderr
        if _refused_batches(limited):
            break
    else:
        pytest.fail("no batch came while the rate was used up")
    # A clone by bob, whose rate is not used up, has what was pushed.
    bob = Workspace(tmp_path / "bob", "bob", limited.tokens["bob"], origin=limited.origin)
    other = await asyncio.to_thread(bob.clone, tmp_path / "remote.git", lfs_url=limited.base_url)
    assert (other.path / "0.dat").read_bytes() == content("limited 0", 5_000)


def test_the_commands_show_rates(limited: Stack) -> None:
    """A rate is shown where there is one, and is given as it is shown."""
    run = limited.towpath
    assert "rate" not in run("user", "add", "dora")
    assert run("user", "update", "dora", "--rate", "10/s")["rate"] == "600/min"
    assert run("token", "add", "dora", "build", "--rate", "1000/h")["rate"] == "1000/h"
    assert run("token", "update", "dora", "build", "--rate", "none")["rate"] == "none"
    assert run("group", "add", "builds", "--rate", "60/min")["rate"] == "60/min"
    assert "rate" not in run("group", "update", "builds", "--rate", "default")
    listed = finished([*TOWPATH, "user", "list", "--data", str(limited.data)]).stdout
    assert next(line for line in listed.splitlines() if line.startswith("dora")).split()[-1] == "600/min"
    refused = finished([*TOWPATH, "user", "update", "dora", "--rate", "600", "--data", str(limited.data)])
    assert refused.returncode == 2
    assert "600/min" in refused.stderr
