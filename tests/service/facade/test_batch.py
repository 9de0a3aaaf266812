"""The batch over HTTP: what the facade itself decides (protocol: "Batch")."""

from prometheus_client import REGISTRY

from tests.service.facade.conftest import Place
from tests.support.http import content, oid_of


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
