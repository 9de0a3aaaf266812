"""Many locks in one call, by processes that want the same paths, and in the lists of the real git-lfs."""

import asyncio
import json
from asyncio.subprocess import Process
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from tests.e2e.poster import post, poster
from tests.support.git import Workspace, shared_repository
from tests.support.http import Client
from tests.support.stack import Stack, running_stack
from tests.support.waiting import STEP_SECONDS

ROUNDS = 200
PATHS = [f"Content/Maps/Part {number:04}.umap" for number in range(1_000)]
# Each has a part of its own, and half of all paths are wanted by both; one names them from the other end.
WANTED = {"alice": PATHS[:750], "bob": PATHS[:249:-1]}
REFS = {"alice": "refs/heads/main", "bob": "refs/heads/bob"}


@pytest.fixture(scope="module")
def crowded() -> Iterator[Stack]:
    """A stack of its own, for its many locks."""
    with running_stack() as stack:
        yield stack


@pytest.fixture
async def contenders(crowded: Stack) -> AsyncIterator[dict[str, Process]]:
    """A process of alice and one of bob."""
    async with AsyncExitStack() as running:
        yield {
            user: await running.enter_async_context(poster(crowded.base_url, user, crowded.tokens[user], ref=ref))
            for user, ref in REFS.items()
        }


@pytest.fixture
async def onlooker(crowded: Stack) -> AsyncIterator[Client]:
    """A client that changes nothing."""
    async with Client(crowded.base_url, "alice", crowded.tokens["alice"]) as client:
        yield client


async def _contend(contenders: dict[str, Process]) -> dict[str, tuple[int, dict[str, object]]]:
    """Let all lock what they want at the same moment, and return their answers."""
    calls = (post(process, "locks/batch/lock", paths=WANTED[user], atomic=True) for user, process in contenders.items())
    answers = await asyncio.wait_for(asyncio.gather(*calls), STEP_SECONDS)
    return dict(zip(contenders, answers, strict=True))


def _paths_of(locks: Sequence[dict[str, object]]) -> list[object]:
    return [lock["path"] for lock in locks]


@pytest.mark.drill
async def test_one_of_two_processes_gets_all_paths(contenders: dict[str, Process], onlooker: Client) -> None:
    """Of two that want overlapping paths at once, one gets all of its own, and the other none."""
    for number in range(ROUNDS):
        answers = await _contend(contenders)
        assert sorted(status for status, _ in answers.values()) == [201, 409], f"round {number}"
        [winner] = [user for user, (status, _) in answers.items() if status == 201]
        [loser] = answers.keys() - {winner}
        won = answers[winner][1]["locks"]
        assert isinstance(won, list)
        assert _paths_of(won) == WANTED[winner]
        assert {lock["owner"]["name"] for lock in won} == {winner}
        # The refusal names the winner's locks on all paths that both want, and no other.
        common = set(WANTED[loser]) & set(WANTED[winner])
        assert answers[loser][1]["locks"] == sorted(
            (lock for lock in won if lock["path"] in common), key=lambda lock: WANTED[loser].index(lock["path"])
        )
        # What stands is what the winner was told of: nothing of the loser's own part.
        standing = await onlooker.all_locks(limit=1_000)
        assert sorted(standing, key=lambda lock: WANTED[winner].index(lock["path"])) == won
        status, removed = await post(contenders[winner], "locks/batch/unlock", paths=WANTED[winner], atomic=True)
        assert (status, removed) == (200, {"locks": won})
        assert await onlooker.all_locks() == []


@pytest.mark.drill
async def test_paths_change_hands_whole(contenders: dict[str, Process], onlooker: Client) -> None:
    """While nobody waits for the other, each call gets all or nothing, and each unlock removes what was locked."""

    async def take_and_give_back(user: str, process: Process) -> None:
        taken = 0
        while taken < ROUNDS // 4:
            status, answer = await post(process, "locks/batch/lock", paths=WANTED[user], atomic=True)
            if status == 409:
                assert {lock["owner"]["name"] for lock in answer["locks"]} == WANTED.keys() - {user}
                continue
            assert status == 201
            assert _paths_of(answer["locks"]) == WANTED[user]
            removed = await post(process, "locks/batch/unlock", paths=WANTED[user], atomic=True)
            assert removed == (200, answer)
            taken += 1

    await asyncio.gather(*(take_and_give_back(user, process) for user, process in contenders.items()))
    assert await onlooker.all_locks() == []


@pytest.mark.drill
async def test_the_real_client_lists_a_thousand_locks_of_a_batch(
    crowded: Stack, contenders: dict[str, Process], tmp_path: Path
) -> None:
    """All locks that one call made are the user's own in `git lfs locks --verify`, and in the lists of everybody."""
    status, _ = await post(contenders["alice"], "locks/batch/lock", paths=PATHS, atomic=True)
    assert status == 201
    alice = Workspace(tmp_path / "alice", "alice", crowded.tokens["alice"], origin=crowded.origin)
    clone = shared_repository(alice, tmp_path / "remote.git", lfs_url=crowded.base_url)
    bob = Workspace(tmp_path / "bob", "bob", crowded.tokens["bob"], origin=crowded.origin)
    bobs = bob.clone(tmp_path / "remote.git", lfs_url=crowded.base_url)
    bobs.git("checkout", "--quiet", "-b", "bob")
    marked = clone.lfs("locks", "--verify").stdout.splitlines()
    assert len(marked) == len(PATHS)
    assert all(line.startswith("O ") for line in marked)
    own = json.loads(clone.lfs("locks", "--verify", "--json").stdout)
    assert ([lock["path"] for lock in own["ours"]], own["theirs"]) == (PATHS, [])
    others = json.loads(bobs.lfs("locks", "--verify", "--json").stdout)
    assert ([lock["path"] for lock in others["theirs"]], others["ours"]) == (PATHS, [])
    listed = json.loads(bobs.lfs("locks", "--json", "--limit=5000").stdout)
    assert [(lock["path"], lock["owner"]["name"]) for lock in listed] == [(path, "alice") for path in PATHS]
    assert json.loads(bobs.lfs("locks", "--json").stdout) == listed
    status, answer = await post(contenders["alice"], "locks/batch/unlock", paths=PATHS)
    assert (status, answer) == (200, {"batch": {"paths": PATHS, "failures": []}})
    assert json.loads(clone.lfs("locks", "--json").stdout) == []
