"""Short outages behind the facade, waited out and not passed on, because a client repeats no batch."""

from collections.abc import Iterator

import httpx
import psutil
import pytest

from services.conformance.blobs import Blob, new_blob
from tests.protocol.client import Client
from tests.support.stack import Stack, running_stack
from tests.support.waiting import STEP_SECONDS, blocking_until


@pytest.fixture(scope="module")
def fragile() -> Iterator[Stack]:
    """A stack whose processes are killed."""
    with running_stack("--demo") as stack:
        yield stack


@pytest.fixture(scope="module")
def alice(fragile: Stack, http: httpx.Client) -> Client:
    """Alice on the stack whose processes are killed."""
    return Client(http, fragile.base_url, f"Bearer {fragile.tokens['alice']}")


def kill(stack: Stack, name: str) -> None:
    """Kill all of a service once it runs, as it may have been started again a moment ago."""
    blocking_until(lambda: stack.services(name), f"{name} is started again")
    _, alive = psutil.wait_procs(stack.kill_service(name), timeout=STEP_SECONDS)
    assert not alive


@pytest.mark.parametrize("name", ["storage", "postgres"])
def test_a_killed_service_is_not_noticed_by_transfers(fragile: Stack, alice: Client, name: str) -> None:
    """The git-lfs client repeats no batch after a 5xx, so a restart behind the facade is waited out (client-18)."""
    blob, held = new_blob(), alice.upload(new_blob())
    action, download = alice.action("upload", blob), alice.action("download", held)
    kill(fragile, name)
    assert alice.batch("download", held.entry).status_code == 200
    kill(fragile, name)
    assert alice.put(action, blob.content).status_code == 200
    kill(fragile, name)
    assert alice.get(download).content == held.content
    assert Blob(alice.get(alice.action("download", blob)).content).oid == blob.oid


@pytest.mark.parametrize("name", ["locks", "postgres"])
def test_a_killed_service_is_not_noticed_by_locks(fragile: Stack, alice: Client, name: str) -> None:
    """A restart of locks or Postgres must be waited out, so that no client sees it."""
    kill(fragile, name)
    created = alice.lock(f"outage/{name}")
    assert created.status_code == 201
    kill(fragile, name)
    assert alice.unlock(created.json()["lock"]["id"]).json() == created.json()


def test_a_killed_facade_is_there_again_for_the_next_request(fragile: Stack, alice: Client) -> None:
    """A killed facade is replaced without loss, because older tokens need no state in memory (trap-27, trap-35)."""
    blob = new_blob()
    action = alice.action("upload", blob)
    kill(fragile, "facade")
    with httpx.Client(timeout=STEP_SECONDS) as http:
        again = Client(http, alice.base_url, alice.authorization)
        assert again.put(action, blob.content).status_code == 200
        assert again.holds(blob)
