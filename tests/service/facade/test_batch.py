"""The batch over HTTP: what the facade itself decides (protocol: "Batch")."""

from typing import Any

import httpx
import pytest
from prometheus_client import REGISTRY

from services.facade.web.media_types import DIALECTS, Dialect
from tests.service.facade.conftest import Place
from tests.support.http import Client, content, oid_of

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


async def test_limits_hold_before_any_work(place: Place) -> None:
    """Objects of a batch 413, bytes of a body 413, bytes of an object 422."""
    inner = place.inner
    async with (
        inner.running_facade(batch_objects=2, body_bytes=1_000, object_bytes=10) as facade,
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
