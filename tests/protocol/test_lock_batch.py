"""Many locks in one call (protocol: Many locks)."""

import httpx
import pytest

from services.conformance.dialects import Dialect
from tests.protocol.answers import ERROR_KEYS
from tests.protocol.client import Client
from tests.protocol.conftest import NewRepository

OF_BOB = {"name": "refs/heads/bob"}


def lock_all(client: Client, *paths: object, **fields: object) -> httpx.Response:
    """Lock paths."""
    return client.post("/locks/batch/lock", {"paths": paths, **fields})


def unlock_all(client: Client, *paths: object, **fields: object) -> httpx.Response:
    """Remove the locks of paths."""
    return client.post("/locks/batch/unlock", {"paths": paths, **fields})


def test_a_request_of_friendshipper(new_repository: NewRepository, dialect: Dialect) -> None:
    """The Unreal client sends `paths` and `force`, and reads the paths and the failures of `batch`."""
    alice = new_repository().speaking(dialect)
    paths = ["Content/Maps/Main.umap", "Content/Hero.uasset"]
    for call in (lock_all, unlock_all):
        answer = call(alice, *paths, force=False)
        assert answer.status_code == 200
        assert answer.json() == {"batch": {"paths": paths, "failures": []}}


def test_each_path_that_can_be_is_locked_and_unlocked(alice: Client, bob: Client) -> None:
    """A path that cannot be locked or unlocked is a failure with its reason, and the other paths are done."""
    alice.lock("batch/hers")
    answer = lock_all(bob, "batch/his", "batch/hers", "/rooted", ref=OF_BOB).json()["batch"]
    assert answer["paths"] == ["batch/his"]
    assert [failure["path"] for failure in answer["failures"]] == ["batch/hers", "/rooted"]
    assert all(failure.keys() == {"path", "reason"} for failure in answer["failures"])
    assert "alice" in answer["failures"][0]["reason"]
    answer = unlock_all(bob, "batch/his", "batch/hers", "batch/none", ref=OF_BOB).json()["batch"]
    assert answer["paths"] == ["batch/his"]
    assert [failure["path"] for failure in answer["failures"]] == ["batch/hers", "batch/none"]
    assert unlock_all(alice, "batch/hers").json()["batch"]["paths"] == ["batch/hers"]


def test_all_paths_or_none(alice: Client, bob: Client, dialect: Dialect) -> None:
    """A locked path leaves all paths as they were with `atomic`, and the answer has each lock that stands."""
    path = f"atomic/{dialect.name}"
    hers = [f"{path}/hers", f"{path}/hers too"]
    standing = [alice.lock(each).json()["lock"] for each in hers]
    for call in (lock_all, unlock_all):
        answer = call(bob.speaking(dialect), f"{path}/his", *hers, atomic=True, ref=OF_BOB)
        assert answer.status_code == 409
        body = answer.json()
        assert {"message", "locks", "failures", "request_id"} <= body.keys() <= {"locks", "failures"} | ERROR_KEYS
        assert body["locks"] == standing
        assert set(hers) <= {failure["path"] for failure in body["failures"]}
    assert alice.locks(path=f"{path}/his").json() == {"locks": []}
    locked = lock_all(alice.speaking(dialect), f"{path}/1", *hers, atomic=True)
    assert locked.status_code == 201
    assert [lock["path"] for lock in locked.json()["locks"]] == [f"{path}/1", *hers]
    assert locked.json()["locks"][1:] == standing
    unlocked = unlock_all(alice.speaking(dialect), f"{path}/1", *hers, atomic=True)
    assert (unlocked.status_code, unlocked.json()) == (200, locked.json())


@pytest.mark.parametrize("paths", [[], [f"f{number}" for number in range(1001)], [1], "f1", None], ids=repr)
def test_the_paths_are_bounded(alice: Client, paths: object) -> None:
    """No path, more than 1,000, and anything that is no list of strings are refused by the name of the field."""
    answer = alice.post("/locks/batch/lock", {"paths": paths})
    assert answer.status_code == 422
    assert "paths" in answer.json()["message"]


def test_access_is_that_of_a_single_lock(alice: Client, bob: Client, carol: Client, anonymous: Client) -> None:
    """A caller that may not lock one path may not lock many, and a grant for some refs gives no force."""
    for call in (lock_all, unlock_all):
        assert [call(client, "f1").status_code for client in (anonymous, carol, bob)] == [401, 403, 403]
    lock_all(alice, "forced")
    [failure] = unlock_all(bob, "forced", force=True, ref=OF_BOB).json()["batch"]["failures"]
    assert failure["path"] == "forced"
    assert "every ref" in failure["reason"]
