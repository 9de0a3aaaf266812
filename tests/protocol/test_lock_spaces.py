"""Locks by branch (protocol: Locks by branch)."""

from services.conformance.dialects import Dialect
from tests.protocol.administration import Administration
from tests.protocol.client import Client
from tests.protocol.conftest import NewRepository

MAIN = {"name": "refs/heads/main"}
RELEASE = {"name": "refs/heads/release/1"}


def test_a_repository_may_lock_branches_apart(
    operator: Administration, new_repository: NewRepository, dialect: Dialect
) -> None:
    """A path has one lock in each space, and the lists of a space have the locks of that space alone."""
    name = f"contract/spaces-{dialect.name}"
    alice = new_repository(name).speaking(dialect)
    operator.set_lock_spaces(name, "refs/heads/release/*=per-ref")
    main = alice.lock("f1", ref=MAIN).json()["lock"]
    release = alice.lock("f1", ref=RELEASE).json()["lock"]
    assert "space" not in main
    assert release["space"] == RELEASE["name"]
    for ref, standing in ((MAIN, main), (RELEASE, release), (None, main)):
        answer = alice.lock("f1", ref=ref)
        assert (answer.status_code, answer.json()["lock"]) == (409, standing)
    for ref, standing in ((MAIN, main), (RELEASE, release)):
        assert alice.locks(refspec=ref["name"]).json() == {"locks": [standing]}
        assert alice.locks(refspec=ref["name"], path="f1").json() == {"locks": [standing]}
        assert alice.verify_locks(ref=ref).json() == {"ours": [standing], "theirs": []}
    assert alice.locks().json() == alice.locks(path="f1").json() == {"locks": [main, release]}
    assert alice.verify_locks().json()["ours"] == [main, release]
    batch = alice.post("/locks/batch/unlock", {"paths": ["f1"], "ref": RELEASE, "atomic": True})
    assert batch.json() == {"locks": [release]}
    assert alice.locks().json() == {"locks": [main]}


def test_locks_keep_the_space_in_which_they_were_created(
    operator: Administration, new_repository: NewRepository, alice: Client
) -> None:
    """A change of the rules moves no lock, and a lock of before is removed by its id."""
    alice = new_repository("contract/spaces-change")
    operator.set_lock_spaces("contract/spaces-change", "refs/heads/*=per-ref")
    lock = alice.lock("f1", ref=MAIN).json()["lock"]
    operator.set_lock_spaces("contract/spaces-change")
    assert alice.locks(refspec="refs/heads/other").json() == {"locks": [lock]}
    assert alice.lock("f1", ref=MAIN).status_code == 201
    assert alice.unlock(lock["id"]).json() == {"lock": lock}
