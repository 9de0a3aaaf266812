"""The signing key is changed while clients work: docs/operations.md, "Changing a secret while people work"."""

import itertools

import httpx

from tests.service.facade.conftest import Inner, Place, new_place
from tests.support.facade import running_facade
from tests.support.http import content

OLD, NEW = (f"an {age} key that signs nothing outside of this test" for age in ("old", "new"))
STEPS = [
    {"signing_key": OLD},
    {"signing_key": OLD, "signing_key_accepted": NEW},
    {"signing_key": NEW, "signing_key_accepted": OLD},
    {"signing_key": NEW},
]


async def _moved(asked: Place, served: Place, data: bytes) -> list[int]:
    """Upload and then download at one facade with actions of another; return the statuses, to the first refusal."""
    statuses: list[int] = []
    async with asked.client() as alice:
        for operation, method in (("upload", "PUT"), ("download", "GET")):
            action = await alice.offered(operation, data)
            url = action.href.replace(asked.facade.origin, served.facade.origin)
            body = data if method == "PUT" else b""
            response: httpx.Response = await alice.http.request(method, url, headers=action.header, content=body)
            statuses.append(response.status_code)
            if response.status_code != httpx.codes.OK:
                break
    return statuses


async def _moved_both_ways(inner: Inner, before: dict[str, str], after: dict[str, str]) -> list[int]:
    addresses = inner.storage.address, inner.locks.address
    async with running_facade(*addresses, **before) as first, running_facade(*addresses, **after) as second:
        place = await new_place(first, inner)
        other = Place(second, inner, place.name, place.repository_id)
        forth = await _moved(place, other, content(f"{place.name} forth", 1_000))
        return forth + await _moved(other, place, content(f"{place.name} back", 1_000))


async def test_no_action_fails_at_any_step(inner: Inner) -> None:
    """While facades restart one by one, those before and those after a step take each other's actions."""
    for before, after in itertools.pairwise(STEPS):
        assert await _moved_both_ways(inner, before, after) == [200] * 4


async def test_without_the_steps_in_between_actions_are_refused(inner: Inner) -> None:
    """A key that is neither the one nor the accepted one opens nothing."""
    assert await _moved_both_ways(inner, STEPS[0], STEPS[-1]) == [403] * 2
