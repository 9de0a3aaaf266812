"""The batch over HTTP: what the facade itself decides (protocol: "Batch")."""

import re
import time
from datetime import datetime
from typing import Any

import httpx
import pytest
from prometheus_client import REGISTRY
from towpath.storage.v1 import storage_service_pb2 as pb

from services.facade.web.media_types import DIALECTS, Dialect
from tests.service.facade.conftest import Inner, Place, new_place
from tests.support.facade import RunningFacade, running_facade
from tests.support.http import MEDIA_TYPE, Client, content, oid_of
from tests.support.waiting import STEP_SECONDS

OID = "a" * 64


async def _batch(
    client: Client,
    **body: Any,  # noqa: ANN401 - whatever JSON a test sends
) -> dict[str, Any]:
    response = await client.post("objects/batch", **body)
    assert response.status_code == 200, response.text
    answered: dict[str, Any] = response.json()
    assert "null" not in response.text
    assert (answered["transfer"], answered["hash_algo"]) == ("basic", "sha256")
    return answered


async def test_one_answer_for_each_entry_in_order_repeats_included(place: Place) -> None:
    """Oid and size as asked (client-2, client-15, trap-31)."""
    held = await place.inner.storage.write(place.repository_id, b"held")
    entries: list[dict[str, Any]] = [
        {"oid": held, "size": 4},
        {"oid": OID, "size": 1},
        {"oid": held.upper(), "size": 4},
        {"oid": held, "size": 4},
        {"oid": held, "size": 5},
        {"oid": OID, "size": -125},
        {"oid": OID, "size": 2**63 - 1},
        {"oid": OID, "size": 10**30},
        {"oid": OID},
        {"size": 3},
        {"oid": 5, "size": "5"},
        {"oid": OID, "size": 5.5},
        {},
    ]
    async with place.client() as alice:
        answered = (await _batch(alice, operation="download", objects=entries))["objects"]
    codes = [answer.get("error", {}).get("code") for answer in answered]
    assert codes == [None, 404, 422, None, 422, 422, 404, 422, 422, 422, 422, 422, 422]
    for entry, answer in zip(entries, answered, strict=True):
        assert ("actions" in answer) != ("error" in answer)
        if isinstance(entry.get("oid"), str):
            assert answer["oid"] == entry["oid"]
        if isinstance(entry.get("size"), int):
            assert answer["size"] == entry["size"]


async def test_an_upload_of_what_is_held_has_no_actions(place: Place) -> None:
    """The key is absent, and the rest of the batch is as it should be."""
    held = await place.inner.storage.write(place.repository_id, b"held already")
    async with place.client() as alice:
        body = [{"oid": held, "size": 12}, {"oid": OID, "size": 0}, {"oid": "x", "size": 0}]
        answered = (await _batch(alice, operation="upload", objects=body))["objects"]
    assert answered[0] == {"oid": held, "size": 12, "authenticated": True}
    assert set(answered[1]["actions"]) == {"upload", "verify"}
    assert answered[2]["error"]["code"] == 422


async def test_an_upload_without_a_valid_object_is_refused_whole(place: Place) -> None:
    """A download is not; nor is an empty list."""
    bad = [{"oid": "x", "size": 1}, {"oid": OID}]
    async with place.client() as alice:
        refused = await alice.post("objects/batch", operation="upload", objects=bad)
        assert refused.status_code == 422
        assert "objects" not in refused.json()
        assert (await _batch(alice, operation="upload", objects=[]))["objects"] == []
        assert (await _batch(alice, operation="download", objects=[]))["objects"] == []
        assert len((await _batch(alice, operation="download", objects=bad))["objects"]) == 2


async def test_another_hash_algorithm_is_told_of_each_object(place: Place) -> None:
    """409, in a batch that is 200 (trap-32)."""
    async with place.client() as alice:
        for algorithm in ("sha512", "", 5):
            body = [{"oid": OID, "size": 1}] * 2
            answered = await _batch(alice, operation="upload", objects=body, hash_algo=algorithm)
            assert [answer["error"]["code"] for answer in answered["objects"]] == [409, 409]


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"operation": "verify"}, "operation"),
        ({"operation": None}, "operation"),
        ({"objects": None}, "objects"),
        ({"objects": {}}, "objects"),
        ({"objects": [[]]}, "objects.0"),
        ({"transfers": ["tus"]}, "transfers"),
        ({"transfers": "basic"}, "transfers"),
        ({"ref": 5}, "ref"),
        ({"ref": {"name": 5}}, "ref.name"),
    ],
)
async def test_the_wrong_shape_is_422_with_the_field(place: Place, fields: dict[str, Any], field: str) -> None:
    """The message names it."""
    async with place.client() as alice:
        body = {"operation": "download", "objects": [], **fields}
        response = await alice.post("objects/batch", **body)
    assert response.status_code == 422
    assert response.json()["message"].startswith(f"{field}: ")


async def test_the_expiry_is_stated_twice_alike(place: Place) -> None:
    """Whole seconds, upper case, and never under a minute (client-14, client-23, trap-24)."""
    before = time.time()
    async with place.client() as alice:
        actions = (await _batch(alice, operation="upload", objects=[{"oid": OID, "size": 1}]))["objects"][0]["actions"]
    after = time.time()
    for action in actions.values():
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", action["expires_at"])
        expiry = datetime.fromisoformat(action["expires_at"]).timestamp()
        assert before - 1 <= expiry - action["expires_in"] <= after + 1
        assert isinstance(action["expires_in"], int)
    assert actions["verify"]["expires_in"] == actions["upload"]["expires_in"] + 86_400


async def test_the_secret_of_the_user_is_not_handed_out(place: Place) -> None:
    """The action has a token of its own (trap-25)."""
    async with place.client() as alice:
        response = await alice.batch("upload", (OID, 1))
    assert place.inner.tokens["alice"] not in response.text


async def test_hrefs_follow_the_host_or_the_public_address(place: Place) -> None:
    """Whichever base address was used; a malformed Host is refused (trap-33)."""
    inner = place.inner
    body = {"operation": "upload", "objects": [{"oid": OID, "size": 1}]}
    async with place.client() as alice:
        headers = {"Authorization": alice._headers["Authorization"], "Content-Type": MEDIA_TYPE}

        async def href(base_url: str, **more: str) -> str:
            response = await alice.http.post(f"{base_url}/objects/batch", json=body, headers={**headers, **more})
            found: str = response.json()["objects"][0]["actions"]["upload"]["href"]
            return found

        end = f"/{place.name}/objects/{OID}"
        assert await href(place.base_url) == f"{place.facade.origin}{end}"
        assert await href(f"{place.base_url}.git/info/lfs/", Host="lfs.example") == f"http://lfs.example{end}"
        bad = await alice.http.post(f"{place.base_url}/objects/batch", json=body, headers={**headers, "Host": "a@b"})
        assert bad.status_code == 400
        public = "https://lfs.example.org/path"
        async with running_facade(inner.storage.address, inner.locks.address, public_url=public) as facade:
            assert await href(f"{facade.origin}/{place.name}", Host="a@b") == f"{public}{end}"


async def test_limits_hold_before_any_work(place: Place) -> None:
    """Objects of a batch 413, bytes of a body 413, bytes of an object 422."""
    inner = place.inner
    async with (
        running_facade(
            inner.storage.address, inner.locks.address, batch_objects=2, body_bytes=1_000, object_bytes=10
        ) as facade,
        Client(f"{facade.origin}/{place.name}", "alice", inner.tokens["alice"]) as alice,
    ):
        assert (await alice.batch("download", *[(OID, 1)] * 2)).status_code == 200
        many = await alice.batch("download", *[(OID, 1)] * 3)
        large = await alice.post("objects/batch", operation="download", objects=[], x="x" * 1_000)
        sizes = await alice.batch("upload", (OID, 10), (OID, 11))
    assert (many.status_code, large.status_code) == (413, 413)
    assert "objects" not in many.json()
    assert [answer.get("error", {}).get("code") for answer in sizes.json()["objects"]] == [None, 422]


def _times_asked() -> float:
    """Return how often storage was asked what is held."""
    labels = {"method": "/towpath.storage.v1.StorageService/BatchStatObjects", "status": "OK"}
    return REGISTRY.get_sample_value("towpath_grpc_requests_total", labels) or 0


async def test_a_thousand_objects_are_one_question(place: Place) -> None:
    """Storage is called once, so that a large push begins at once (trap-10)."""
    objects = [(oid_of(content(str(number), 8)), 8) for number in range(1_000)]
    async with place.client() as alice:
        asked = _times_asked()
        response = await alice.batch("upload", *objects)
    assert len(response.json()["objects"]) == 1_000
    assert _times_asked() == asked + 1


async def test_removed_objects_are_410(place: Place) -> None:
    """With the reason, in both operations."""
    oid = await place.inner.storage.write(place.repository_id, b"removed")
    await place.inner.storage.stub.DeleteObject(
        pb.DeleteObjectRequest(repository_id=place.repository_id, oid=oid, reason="a secret", removed_by="alice")
    )
    async with place.client() as alice:
        for operation in ("upload", "download"):
            error = (await alice.batch(operation, (oid, 7))).json()["objects"][0]["error"]
            assert error["code"] == 410
            assert "a secret" in error["message"]


async def test_a_public_repository_is_read_by_anybody(facade: RunningFacade, inner: Inner) -> None:
    """Anybody reads a public repository, but a write needs credentials, and bad ones are always refused."""
    public = await new_place(facade, inner, public=True)
    oid = await inner.storage.write(public.repository_id, b"public")
    async with httpx.AsyncClient(trust_env=False, timeout=STEP_SECONDS) as http:

        async def batch(operation: str, **headers: str) -> httpx.Response:
            body = {"operation": operation, "objects": [{"oid": oid, "size": 6}]}
            headers["Content-Type"] = MEDIA_TYPE
            return await http.post(f"{public.base_url}/objects/batch", json=body, headers=headers)

        answered = await batch("download")
        action = answered.json()["objects"][0]["actions"]["download"]
        assert (await http.get(action["href"], headers=action["header"])).content == b"public"
        assert (await batch("upload")).status_code == 401
        assert (await batch("download", Authorization="Bearer x")).status_code == 401


@pytest.mark.parametrize("dialect", DIALECTS, ids=lambda dialect: dialect.media_type)
async def test_bad_names_of_repositories_are_repositories_that_do_not_exist(place: Place, dialect: Dialect) -> None:
    """404 for who is known, 401 for who is not, whatever the address holds (trap-28)."""
    names = [
        "%00",
        "..%2f..",
        f"{place.name}/..",
        f"{place.name}.git.git",
        "a=b",
        "x" * 300,
        "%ff",
        "a%0Ab",
        "",
        "a//b",
    ]
    async with place.client("alice") as alice:
        for name in names:
            url = f"{place.facade.origin}/{name}/objects/batch"
            body = {"operation": "download", "objects": []}
            headers = {"Content-Type": dialect.media_type, "Accept": dialect.media_type}
            known = await alice.http.post(
                httpx.URL(url), json=body, headers={**headers, "Authorization": alice._headers["Authorization"]}
            )
            unknown = await alice.http.post(httpx.URL(url), json=body, headers=headers)
            assert (known.status_code, unknown.status_code) == (404, 401), name
            assert known.headers["content-type"] == dialect.media_type
