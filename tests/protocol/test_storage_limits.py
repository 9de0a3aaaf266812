"""Insufficient storage and used-up bandwidth (protocol: Status codes of batch responses, 507 and 509)."""

from collections.abc import Iterator

import httpx
import pytest

from services.conformance.blobs import new_blob
from services.conformance.dialects import GENERIC, Dialect
from tests.protocol import raw
from tests.protocol.administration import Administration
from tests.protocol.answers import check
from tests.protocol.client import Client
from tests.support.stack import Stack, running_stack

ALLOWANCE = 100_000


@pytest.fixture(scope="module")
def tight() -> Iterator[Stack]:
    """A stack whose repositories may move few bytes a day."""
    with running_stack(environment={"TOWPATH_STORAGE_BANDWIDTH_LIMIT": str(ALLOWANCE)}) as stack:
        yield stack


@pytest.fixture(scope="module")
def alice(tight: Stack, http: httpx.Client) -> Client:
    """Alice on that stack."""
    return Client(http, tight.base_url, f"Bearer {tight.tokens['alice']}")


def test_a_used_up_allowance_is_509(alice: Client, dialect: Dialect, tight: Stack) -> None:
    """A 509 tells the user that the traffic allowance is used up, and not that the server is broken."""
    name = f"bandwidth/{dialect.name}"
    with Administration(tight) as operator:
        operator.add_repository(name)
        operator.grant("alice", name, "write")
    alice = alice.speaking(dialect).at(f"{tight.origin}/{name}")
    held, new = new_blob(ALLOWANCE), new_blob()
    actions = {"upload": alice.action("upload", new)}
    alice.upload(held)
    for operation, blob in (("download", held), ("upload", new)):
        answer = alice.batch(operation, blob.entry)
        assert answer.status_code == 509
        assert "objects" not in answer.json()
    accept = ("Accept", dialect.media_type)
    assert alice.put(actions["upload"], new.content, accept).status_code == 509
    assert 0 < int(answer.headers["retry-after"]) <= 24 * 3600
    assert alice.locks().status_code == 200, "locks move no objects"


def test_an_object_over_the_quota_is_507_for_that_object(alice: Client, dialect: Dialect, tight: Stack) -> None:
    """Objects that fit are offered, in the order asked; the user reads why others are not, and no more is refused."""
    name = f"quota/{dialect.name}"
    with Administration(tight) as operator:
        operator.add_repository(name)
        operator.grant("alice", name, "write")
        operator.set_limits(name, quota=10_000)
    alice = alice.speaking(dialect).at(f"{tight.origin}/{name}")
    held, first, large, last = alice.upload(new_blob(2_000)), new_blob(5_000), new_blob(5_000), new_blob(3_000)
    answer = alice.batch("upload", held.entry, first.entry, large.entry, last.entry)
    assert answer.status_code == 200
    assert answer.headers["x-towpath-quota"] == "used=10000; limit=10000"
    entries = answer.json()["objects"]
    assert [entry.get("error") for entry in entries] == [
        None,
        None,
        {"code": 507, "message": "7 kB of 10 kB used"},
        None,
    ]
    assert [sorted(entry.get("actions", ())) for entry in entries] == [
        [],
        ["upload", "verify"],
        [],
        ["upload", "verify"],
    ]
    for blob, entry in ((first, entries[1]), (last, entries[3])):
        action = entry["actions"]["upload"]
        assert alice.put(action, blob.content).status_code == 200
    assert alice.get(alice.action("download", held)).content == held.content


def test_where_nothing_fits_the_quota_the_request_is_507(alice: Client, tight: Stack) -> None:
    """The message says how much is used; an upload whose room was given to others in time is refused with it too."""
    with Administration(tight) as operator:
        operator.add_repository("quota/full")
        operator.grant("alice", "quota/full", "write")
        alice = alice.at(f"{tight.origin}/quota/full")
        held, late = new_blob(4_000), new_blob(7_000)
        action = alice.action("upload", late)
        alice.upload(held)
        operator.set_limits("quota/full", quota=10_000)
    answer = alice.batch("upload", late.entry)
    assert answer.status_code == 507
    assert answer.json()["message"].startswith("4 kB of 10 kB used (request id ")
    assert "x-towpath-quota" not in answer.headers
    refused = alice.put(action, late.content)
    assert refused.status_code == 507
    assert refused.json()["message"].startswith("4 kB of 10 kB used")
    assert alice.lock("full.bin").status_code == 201, "locks go on"


def test_a_full_disk_is_507(alice: Client, tight: Stack) -> None:
    """A client that still sends its PUT can read the 507, so that its user learns that the disk is full."""
    held, new = alice.upload(new_blob(1000)), new_blob(50_000)
    action = alice.action("upload", new)
    tight.stop()
    # Nothing fits beside so large a reserve.
    tight.environment["TOWPATH_STORAGE_RESERVE_BYTES"] = str(2**60)
    tight.start()
    answer = alice.batch("upload", new.entry)
    assert answer.status_code == 507
    assert "objects" not in answer.json()
    with raw.Connection(tight.origin) as connection:
        headers = [*action["header"].items(), ("Content-Length", str(new.size)), ("Accept", GENERIC.media_type)]
        connection.begin("PUT", httpx.URL(action["href"]).raw_path, headers)
        connection.send(new.content)
        assert check(connection.answer(), GENERIC).status_code == 507
    assert alice.get(alice.action("download", held)).content == held.content
    assert "actions" not in alice.entry("upload", held)
    assert alice.lock("full.bin").status_code == 201
