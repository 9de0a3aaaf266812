"""The lock endpoints over HTTP: what the facade itself decides (protocol: "Create lock" to "Delete lock")."""

from typing import Any

import httpx
import pytest

from services.facade.web.media_types import DIALECTS, Dialect
from tests.service.facade.conftest import Inner, Place, new_place
from tests.support.facade import RunningFacade
from tests.support.http import MEDIA_TYPE
from tests.support.waiting import STEP_SECONDS


async def test_a_lock_is_made_found_verified_and_removed(place: Place) -> None:
    """Each answer has the lock with its owner's name, and no `message` (client-4, client-20)."""
    async with place.client() as alice, place.client("bob", ref="refs/heads/bob") as bob:
        created = await alice.lock("a/b.psd")
        lock = created.json()["lock"]
        assert (created.status_code, set(created.json())) == (201, {"lock"})
        assert set(lock) == {"id", "path", "locked_at", "owner"}
        assert (lock["path"], lock["owner"]) == ("a/b.psd", {"name": "alice"})
        conflict = await bob.lock("a/b.psd")
        assert (conflict.status_code, conflict.json()["lock"]) == (409, lock)
        assert "alice" in conflict.json()["message"]
        assert (await alice.locks()).json() == {"locks": [lock]}
        assert (await alice.post("locks/verify")).json() == {"ours": [lock], "theirs": []}
        assert (await bob.post("locks/verify")).json() == {"ours": [], "theirs": [lock]}
        assert (await bob.unlock(lock["id"])).status_code == 403
        assert (await bob.unlock(lock["id"], force=True)).status_code == 403
        assert (await alice.unlock(lock["id"])).json() == {"lock": lock}
        assert (await alice.unlock(lock["id"])).status_code == 404
        assert (await alice.locks()).json() == {"locks": []}


@pytest.mark.parametrize("user", ["bob", "carol"])
@pytest.mark.parametrize("known", [True, False])
async def test_who_may_not_is_told_403_never_404(place: Place, user: str, *, known: bool) -> None:
    """A user without permission gets 403 for an unknown repository too, because 404 ends lock checks (client-8)."""
    async with place.client(user) as client:
        if not known:
            client.base_url = f"{place.facade.origin}/studio/unknown"
        answers = [
            await client.lock("a"),
            await client.unlock("1"),
        ]
        seen = [await client.locks(), await client.post("locks/verify")]
    assert {answer.status_code for answer in answers} == {403}
    # Bob may write one ref, which is enough to see.
    assert {answer.status_code for answer in seen} == {200 if user == "bob" and known else 403}


async def test_empty_query_values_are_absent(place: Place) -> None:
    """As in the protocol's own example."""
    async with place.client() as alice:
        await alice.lock("a")
        everything = await alice.http.get(
            f"{place.base_url}/locks?path=&id=&cursor=&limit=&refspec=&x=y", headers=alice._headers
        )
        one = await alice.locks(path="a")
        none = [await alice.locks(path="A"), await alice.locks(id="x"), await alice.locks(path="a\0")]
    assert len(everything.json()["locks"]) == len(one.json()["locks"]) == 1
    assert [(answer.status_code, answer.json()) for answer in none] == [(200, {"locks": []})] * 3


@pytest.mark.parametrize(
    ("limit", "status", "count"),
    [("1", 200, 1), ("0", 200, 3), ("-1", 200, 3), ("9" * 30, 200, 3), ("abc", 422, 0), ("1.5", 422, 0)],
)
async def test_the_limit_of_a_page(place: Place, limit: str, status: int, count: int) -> None:
    """Less than 1 is the default, too many are coerced."""
    async with place.client() as alice:
        for path in "abc":
            await alice.lock(path)
        page = await alice.locks(limit=limit)
        assert page.status_code == status
        assert len(page.json().get("locks", [])) == count
        if limit.lstrip("-").isdigit():
            verified = await alice.post("locks/verify", limit=int(limit), ref=None, cursor="")
            assert len(verified.json()["ours"]) == count
        assert len(await alice.all_locks(limit=1)) == 3
        bad = [await alice.locks(cursor="x"), await alice.post("locks/verify", cursor="x")]
    assert [answer.status_code for answer in bad] == [422, 422]


async def test_strange_paths_come_back_byte_for_byte(place: Place) -> None:
    """By POST, in the list, by query, and after unlocking."""
    paths = ["a b+c&d=e?f#g%20", 'q"\\', "line\nbreak", "n\u0303", "\u00f1", "\ufffd", "x" * 4_000, "\U0001f600", " "]
    async with place.client() as alice:
        for path in paths:
            created = await alice.lock(path)
            assert created.status_code == 201, path
            found = (await alice.locks(path=path)).json()["locks"]
            assert [lock["path"] for lock in found] == [path]
        assert [lock["path"] for lock in await alice.all_locks()] == paths
        # What is not UTF-8 in a query is read as it is in JSON, where the client has put U+FFFD itself.
        raw = await alice.http.get(f"{place.base_url}/locks?path=%FF", headers=alice._headers)
        assert [lock["path"] for lock in raw.json()["locks"]] == ["\ufffd"]
        bad = [await alice.lock(path) for path in ("", "/a", "../a", "a//b", "a\0b", "a/.", "x" * 5_000)]
    assert {answer.status_code for answer in bad} == {422}
    assert all("path" in answer.json()["message"] for answer in bad)


@pytest.mark.parametrize("body", [None, b"", b"{}", b'{"force": null, "ref": {}}'])
async def test_unlock_and_verify_need_no_body(place: Place, body: bytes | None) -> None:
    """Clients may unlock and verify without a body, and then they need no Content-Type either."""
    async with place.client() as alice:
        lock = (await alice.lock("a")).json()["lock"]
        headers = {**alice._headers, **({"Content-Type": MEDIA_TYPE} if body else {})}
        verified = await alice.http.post(f"{place.base_url}/locks/verify", content=body, headers=headers)
        unlocked = await alice.http.post(f"{place.base_url}/locks/{lock['id']}/unlock", content=body, headers=headers)
        created = await alice.http.post(f"{place.base_url}/locks", headers=headers)
    assert (verified.status_code, unlocked.status_code, created.status_code) == (200, 200, 400)


@pytest.mark.parametrize("fields", [{"force": "true"}, {"force": 1}, {"ref": 5}])
async def test_force_is_a_boolean(place: Place, fields: dict[str, Any]) -> None:
    """Anything else is 422, and the lock stands."""
    async with place.client() as alice:
        lock = (await alice.lock("a")).json()["lock"]
        response = await alice.post(f"locks/{lock['id']}/unlock", **fields)
        assert response.status_code == 422
        assert (await alice.locks()).json()["locks"] == [lock]


@pytest.mark.parametrize("lock_id", ["a/b", "..", "%2f", "1%00", "%20", "1;2", "9" * 100, "x-_y"])
async def test_a_strange_lock_id_is_404(place: Place, lock_id: str) -> None:
    """Any client can send a strange lock id, so it is 404 and never an error of the service."""
    async with place.client() as alice:
        response = await alice.unlock(lock_id)
    assert response.status_code == 404
    assert response.json()["message"]


async def test_a_lock_of_another_repository_is_not_found(place: Place, facade: RunningFacade, inner: Inner) -> None:
    """Ids are looked up together with their repository (trap-19)."""
    other = await new_place(facade, inner)
    async with place.client() as alice, other.client() as there:
        lock = (await alice.lock("a")).json()["lock"]
        assert (await there.unlock(lock["id"], force=True)).status_code == 404
        assert (await there.locks(id=lock["id"])).json() == {"locks": []}
        assert (await there.lock("a")).status_code == 201


@pytest.mark.parametrize("dialect", DIALECTS, ids=lambda dialect: dialect.media_type)
async def test_bob_may_lock_with_his_ref_only(place: Place, dialect: Dialect) -> None:
    """A ref decides permission, and never filters (protocol: "Ref object")."""
    async with place.client("bob") as bob, place.client() as alice:
        for client in (alice, bob):
            client._headers["Accept"] = dialect.media_type
        await alice.lock("a")
        for ref in (None, {}, {"name": ""}, {"name": "HEAD"}, {"name": "refs/heads/main"}):
            assert (await bob.post("locks", path="b", ref=ref)).status_code == 403
        created = await bob.post("locks", path="b", ref={"name": "refs/heads/bob"})
        assert created.status_code == 201
        assert created.headers["content-type"] == dialect.media_type
        assert len((await bob.locks(refspec="refs/heads/other")).json()["locks"]) == 2


async def test_an_anonymous_caller_is_asked_for_credentials(place: Place) -> None:
    """On every endpoint."""
    async with httpx.AsyncClient(trust_env=False, timeout=STEP_SECONDS) as http:
        for answer in (
            await http.get(f"{place.base_url}/locks"),
            await http.post(f"{place.base_url}/locks/verify"),
            await http.post(f"{place.base_url}/locks/1/unlock"),
            await http.post(f"{place.base_url}/locks", json={"path": "a"}, headers={"Content-Type": MEDIA_TYPE}),
        ):
            assert answer.status_code == 401
