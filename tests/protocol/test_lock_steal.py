"""Thefts of locks, notes and the history of locks (protocol: Steal lock; Lock history)."""

import re
from typing import Any

import httpx
import pytest

from services.conformance.blobs import new_blob
from services.conformance.dialects import Dialect
from tests.protocol.administration import Administration
from tests.protocol.answers import ERROR_KEYS
from tests.protocol.client import Client
from tests.protocol.conftest import NewRepository

OF_BOB = {"name": "refs/heads/bob"}
REASON = "the release is due"
TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ")


def new_lock(client: Client, **fields: object) -> dict[str, Any]:
    """Lock a new path."""
    answer = client.lock(f"steal/{new_blob().oid}", ref=OF_BOB, **fields)
    assert answer.status_code == 201
    return dict(answer.json()["lock"])


def steal(client: Client, lock_id: str, reason: object = REASON, **fields: object) -> httpx.Response:
    """Steal a lock."""
    return client.post(f"/locks/{lock_id}/steal", {"reason": reason, **fields})


def history(client: Client, **values: str) -> httpx.Response:
    """List the released locks that match."""
    url = httpx.URL(f"{client.base_url}/locks/history", params=values)
    return client.send("GET", url, headers=client.headers(body=False))


def test_a_stolen_lock_is_201_with_both_locks(alice: Client, bob: Client, dialect: Dialect) -> None:
    """A theft gives the path a new holder in one step, and its answer has the old lock too."""
    old = new_lock(bob, note="until Friday")
    assert old["note"] == "until Friday"
    answer = steal(alice.speaking(dialect), old["id"], note="the fix")
    assert answer.status_code == 201
    lock, previous = answer.json().pop("lock"), answer.json().pop("previous")
    assert (lock["path"], lock["owner"], lock["note"]) == (old["path"], {"name": "alice"}, "the fix")
    assert lock["id"] != old["id"]
    assert TIME.fullmatch(previous.pop("released_at"))
    release = {"released_by": {"name": "alice"}, "forced": True, "stolen": True, "reason": REASON}
    assert previous == {**old, **release}
    assert alice.locks(path=old["path"]).json() == {"locks": [lock]}


def test_a_lock_that_was_stolen_already_is_409_with_the_standing_one(alice: Client, bob: Client) -> None:
    """The second thief learns the holder of the lock that now stands, and gets 404 where none stands."""
    old = new_lock(bob)
    now = steal(alice, old["id"]).json()["lock"]
    answer = steal(alice, old["id"])
    assert answer.status_code == 409
    assert answer.json().keys() <= {"lock"} | ERROR_KEYS
    assert answer.json()["lock"] == now
    assert alice.unlock(now["id"]).status_code == 200
    assert steal(alice, old["id"]).status_code == steal(alice, now["id"]).status_code == 404


def test_a_theft_needs_the_rights_of_force(alice: Client, bob: Client, carol: Client, anonymous: Client) -> None:
    """A user who may write one ref steals no lock, because the client chooses the ref."""
    lock = new_lock(alice)
    refused = steal(bob, lock["id"], ref=OF_BOB)
    assert refused.status_code == 403
    assert refused.json()["message"] == "the lock belongs to alice; only who may write every ref can steal it"
    assert [steal(client, lock["id"]).status_code for client in (bob, carol, anonymous)] == [403, 403, 401]
    assert alice.locks(id=lock["id"]).json() == {"locks": [lock]}


def test_a_stale_lock_needs_push_access_only(
    bob: Client, carol: Client, operator: Administration, new_repository: NewRepository
) -> None:
    """Every writer may steal a lock of the age that the repository names, and no reader may."""
    owner = new_repository("contract/stale")
    operator.grant("bob", "contract/stale", "write", refs=["refs/heads/bob"])
    operator.grant("carol", "contract/stale", "read")
    lock = new_lock(owner)
    operator.set_stale_after("contract/stale", 1)
    # The lock is older than a second soon.
    while (answer := steal(bob.at(owner.base_url), lock["id"], ref=OF_BOB)).status_code == 403:
        pass
    assert answer.json()["lock"]["owner"] == {"name": "bob"}
    assert steal(carol.at(owner.base_url), lock["id"], ref=OF_BOB).status_code == 403


def test_ones_own_lock_is_422(alice: Client) -> None:
    """The theft of one's own lock is 422, because no right is lacking and no other lock stands there."""
    lock = new_lock(alice)
    answer = steal(alice, lock["id"])
    assert answer.status_code == 422
    assert answer.json()["message"].startswith("id: ")
    assert alice.locks(id=lock["id"]).json() == {"locks": [lock]}


@pytest.mark.parametrize("reason", [None, "", "  ", "x" * 501, "\0", 5])
def test_a_theft_without_a_reason_is_422(alice: Client, bob: Client, reason: object) -> None:
    """A theft needs a reason, because the victim reads it."""
    lock = new_lock(bob)
    answer = steal(alice, lock["id"], reason)
    assert answer.status_code == 422
    assert "reason" in answer.json()["message"]
    assert alice.locks(id=lock["id"]).json() == {"locks": [lock]}


def test_a_note_is_in_every_list(alice: Client, bob: Client, dialect: Dialect) -> None:
    """A note is in every list of its lock, and a lock without one has no such member."""
    note = "boss fight,\nuntil Friday \N{DRAGON}"
    alice = alice.speaking(dialect)
    lock, plain = new_lock(alice, note=note), new_lock(alice, note=None)
    assert lock["note"] == note
    assert "note" not in plain
    assert alice.locks(path=lock["path"]).json() == {"locks": [lock]}
    assert lock in alice.verify_locks(limit=1000).json()["ours"]
    assert bob.lock(lock["path"], ref=OF_BOB).json()["lock"] == lock
    batch = alice.post("/locks/batch/lock", {"paths": [f"{lock['path']}/b"], "note": note, "atomic": True}).json()
    assert batch["locks"][0]["note"] == note
    assert alice.unlock(lock["id"]).json() == {"lock": lock}


@pytest.mark.parametrize("text", ["x" * 501, "\0", 5], ids=["long", "nul", "number"])
def test_a_note_or_reason_out_of_bounds_is_422(alice: Client, text: object) -> None:
    """Notes and reasons are bounded, because any user writes them, and the message names the field."""
    lock = new_lock(alice)
    answers = {
        "note": alice.lock(new_blob().oid, note=text),
        "reason": alice.unlock(lock["id"], reason=text),
    }
    for field, answer in answers.items():
        assert answer.status_code == 422
        assert field in answer.json()["message"]
    assert alice.locks(id=lock["id"]).json() == {"locks": [lock]}


def test_the_history_is_listed_for_readers(
    operator: Administration, new_repository: NewRepository, carol: Client, dialect: Dialect
) -> None:
    """Every reader sees who held a lock, who released it and why, the latest release first, in pages."""
    name = f"contract/history-{dialect.name}"
    alice = new_repository(name).speaking(dialect)
    operator.grant("carol", name, "read")
    carol = carol.at(alice.base_url).speaking(dialect)
    assert history(carol).json() == {"locks": []}
    locks = [new_lock(alice, note=f"note {number}") for number in range(3)]
    alice.unlock(locks[0]["id"], reason="done")
    alice.post("/locks/batch/unlock", {"paths": [locks[1]["path"]], "reason": "also done"})
    alice.unlock(locks[2]["id"])
    first = history(carol, limit="2").json()
    second = history(carol, limit="2", cursor=first["next_cursor"]).json()
    assert "next_cursor" not in second
    found = [*first["locks"], *second["locks"]]
    assert all(TIME.fullmatch(lock.pop("released_at")) for lock in found)
    released = {"released_by": {"name": "alice"}, "forced": False, "stolen": False}
    assert found == [
        {**locks[2], **released},
        {**locks[1], **released, "reason": "also done"},
        {**locks[0], **released, "reason": "done"},
    ]


def test_the_history_is_filtered(alice: Client, bob: Client) -> None:
    """The history is filtered by path, by the owner's name and by the time of the release."""
    hers, his = new_lock(alice), new_lock(bob)
    alice.unlock(hers["id"])
    bob.unlock(his["id"], ref=OF_BOB)

    def ids(**values: str) -> list[str]:
        answer = history(alice, **{"limit": "1000", **values})
        assert answer.status_code == 200
        return [lock["id"] for lock in answer.json()["locks"]]

    assert ids(path=hers["path"]) == [hers["id"]]
    assert ids(path=hers["path"], owner="bob") == ids(path="none") == []
    assert his["id"] in ids(owner="bob")
    assert hers["id"] not in ids(owner="bob")
    assert ids(path=his["path"], since="2026-01-31", until="2999-01-01T00:00:00+01:00") == [his["id"]]
    assert ids(path=his["path"], since="2999-01-01") == ids(path=his["path"], until="2026-01-31T10:00:00Z") == []
    assert ids(path=his["path"], since="", until="", owner="", cursor="", limit="1") == [his["id"]]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("since", "yesterday"),
        ("until", "2026-13-01"),
        ("since", "0001-01-01T00:00:00+14:00"),
        ("until", "x" * 5000),
        ("limit", "ten"),
        ("cursor", "x"),
    ],
)
def test_a_value_that_the_history_does_not_know_is_422(alice: Client, name: str, value: str) -> None:
    """A malformed filter is 422, because a filter that is misread would hide what somebody looks for."""
    answer = history(alice, **{name: value})
    assert answer.status_code == 422
    assert name in answer.json()["message"]


def test_the_history_needs_read_access(bob: Client, anonymous: Client, new_repository: NewRepository) -> None:
    """The history needs the access of the list of locks, and an unknown repository looks like a forbidden one."""
    private = new_repository()
    assert history(bob.at(private.base_url)).status_code == 403
    assert history(anonymous).status_code == 401
    assert history(bob.at(f"{private.base_url}-none")).status_code == 403
