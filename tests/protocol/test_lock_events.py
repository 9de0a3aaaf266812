"""Events of locks (docs/protocol.md, "Events of locks")."""

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice

import httpx
import pytest

from services.conformance.dialects import Dialect
from tests.protocol.administration import Administration
from tests.protocol.answers import check_error
from tests.protocol.client import Client
from tests.protocol.conftest import NewRepository
from tests.support.event_stream import SentEvent, parsed
from tests.support.waiting import STEP_SECONDS


@contextmanager
def watching(client: Client, *, after: str | None = None) -> Iterator[Iterator[SentEvent]]:
    """Watch the events of a repository."""
    headers = {"Accept": "text/event-stream"}
    if client.authorization is not None:
        headers["Authorization"] = client.authorization
    if after is not None:
        headers["Last-Event-ID"] = after
    with client.http.stream("GET", f"{client.base_url}/locks/events", headers=headers) as answer:
        assert answer.status_code == 200
        assert answer.headers["content-type"] == "text/event-stream; charset=utf-8"
        assert answer.headers["cache-control"] == "no-store"
        assert answer.headers["x-accel-buffering"] == "no", "nginx would keep the events back"
        yield parsed(answer.iter_lines())


def asked(client: Client, *headers: tuple[str, str]) -> httpx.Response:
    """Send a request for the events that is refused, and return the checked refusal."""
    authorization = [] if client.authorization is None else [("Authorization", client.authorization)]
    answer = client.send("GET", f"{client.base_url}/locks/events", headers=[*authorization, *headers])
    check_error(answer)
    return answer


def test_each_change_is_told_with_its_lock(new_repository: NewRepository) -> None:
    """An event has the lock that was created or released, who did it, and the position after it."""
    alice = new_repository()
    with watching(alice) as events:
        ready = next(events)
        assert ready.name == "ready"
        lock = alice.lock("Content/Häuser\n.umap").json()["lock"]
        alice.unlock(lock["id"])
        created, released = islice(events, 2)
    assert (created.name, released.name) == ("lock.created", "lock.released")
    for event in (created, released):
        assert event.data["lock"] == lock
        assert event.data["by"] == {"name": "alice"}
        assert event.data["forced"] is False
        assert event.id.startswith(f"{event.data['generation']}-")
    generations = [event.data["generation"] for event in (ready, created, released)]
    assert generations == [generations[0], generations[0] + 1, generations[0] + 2]
    assert alice.locks().headers["etag"].endswith(f'-{generations[-1]}"'), "the list and the events count alike"


def test_a_client_goes_on_after_the_last_event(new_repository: NewRepository) -> None:
    """A client that names its last event gets each later one once."""
    alice = new_repository()
    with watching(alice) as events:
        begun = next(events)
    for name in ("a", "b", "c"):
        alice.lock(name)
    with watching(alice, after=begun.id) as events:
        missed = list(islice(events, 4))
    assert [event.name for event in missed] == ["ready", *["lock.created"] * 3]
    assert [event.path for event in missed[1:]] == ["a", "b", "c"]
    with watching(alice, after=missed[2].id) as events:
        assert [event.path for event in islice(events, 1, 2)] == ["c"]


def test_many_paths_are_many_events(new_repository: NewRepository) -> None:
    """A batch of paths is one event for each path, in its order."""
    alice = new_repository()
    paths = [f"Content/{number:03}" for number in range(200)]
    with watching(alice) as events:
        next(events)
        alice.post("/locks/batch/lock", {"paths": paths, "atomic": True})
        assert [event.path for event in islice(events, 200)] == paths


@pytest.mark.parametrize("after", ["0", "9-9-9", "nonsense", "%00", "1" * 5000])
def test_an_unknown_event_is_a_reset(new_repository: NewRepository, after: str) -> None:
    """A client whose next event is not known gets a reset, and the events after it."""
    alice = new_repository()
    with watching(alice, after=after) as events:
        reset = next(event for event in events if event.name != "ready")
        assert reset.name == "reset"
        alice.lock("a")
        assert next(events).path == "a"


def test_who_may_read_watches(new_repository: NewRepository, anonymous: Client, carol: Client) -> None:
    """A caller who may list the locks may watch them, without credentials in a public repository."""
    private, public = new_repository(), new_repository(public=True)
    assert asked(anonymous.at(private.base_url)).status_code == 401
    assert asked(carol.at(private.base_url)).status_code == 403
    assert asked(private.at(f"{private.base_url}-none")).status_code == 403
    for client in (anonymous, carol):
        with watching(client.at(public.base_url)) as events:
            assert next(events).name == "ready"


def test_another_media_type_is_406(new_repository: NewRepository, dialect: Dialect) -> None:
    """A client that does not accept events gets 406 in its dialect."""
    alice = new_repository().speaking(dialect)
    assert asked(alice, ("Accept", dialect.media_type)).status_code == 406
    for accept in ("*/*", "text/*", f"{dialect.media_type}, text/event-stream;q=0.1"):
        headers = {"Accept": accept, "Authorization": str(alice.authorization)}
        with alice.http.stream("GET", f"{alice.base_url}/locks/events", headers=headers) as answer:
            assert answer.status_code == 200


def test_an_access_that_ends_ends_the_stream(
    new_repository: NewRepository, operator: Administration, http: httpx.Client
) -> None:
    """A stream ends with the token of its client, and has no event of a later change."""
    alice = new_repository()
    spare = alice.showing(f"Bearer {operator.add_token('alice', 'momentary')}")
    with watching(spare) as events:
        next(events)
        operator.revoke_token("alice", "momentary")
        operator.until(401, spare.locks)
        alice.lock("secret")
        assert list(events) == []
    assert http.timeout.read == STEP_SECONDS, "a stream that goes on would fail here"
