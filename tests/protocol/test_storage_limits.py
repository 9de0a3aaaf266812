"""Insufficient storage and used-up bandwidth (protocol: Status codes of batch responses, 507 and 509)."""

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from services.conformance.blobs import new_blob
from services.conformance.dialects import GENERIC, Dialect
from tests.protocol import raw
from tests.protocol.administration import Administration
from tests.protocol.answers import check
from tests.protocol.client import Client
from tests.protocol.conftest import ALLOWANCE
from tests.support.second_facade import running_second_facade
from tests.support.service_process import service_process
from tests.support.stack import Stack


@pytest.fixture
def small_operator(small: Stack) -> Iterator[Administration]:
    """The operator of the stack with small limits."""
    with Administration(small) as operator:
        yield operator


def new_repository(small_alice: Client, operator: Administration, name: str, *, quota: int = 0) -> Client:
    """Make a repository that alice may write, and return her client there."""
    operator.add_repository(name)
    operator.grant("alice", name, "write")
    if quota:
        operator.set_limits(name, quota=quota)
    return small_alice.at(small_alice.base_url.replace("demo/assets", name))


def test_a_used_up_allowance_is_509(small_alice: Client, dialect: Dialect, small_operator: Administration) -> None:
    """A 509 tells the user that the traffic allowance is used up, and not that the server is broken."""
    alice = new_repository(small_alice, small_operator, f"bandwidth/{dialect.name}").speaking(dialect)
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


def test_an_object_over_the_quota_is_507_for_that_object(
    small_alice: Client, dialect: Dialect, small_operator: Administration
) -> None:
    """Objects that fit are offered in the order asked, and each of the others has the reason why not."""
    alice = new_repository(small_alice, small_operator, f"quota/{dialect.name}", quota=10_000).speaking(dialect)
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


def test_where_nothing_fits_the_quota_the_request_is_507(small_alice: Client, small_operator: Administration) -> None:
    """The message has the used bytes, and so has the refusal of an upload that was announced in time."""
    alice = new_repository(small_alice, small_operator, "quota/full")
    held, late = new_blob(4_000), new_blob(7_000)
    action = alice.action("upload", late)
    alice.upload(held)
    small_operator.set_limits("quota/full", quota=10_000)
    answer = alice.batch("upload", late.entry)
    assert answer.status_code == 507
    assert answer.json()["message"].startswith("4 kB of 10 kB used (request id ")
    assert "x-towpath-quota" not in answer.headers
    refused = alice.put(action, late.content)
    assert refused.status_code == 507
    assert refused.json()["message"].startswith("4 kB of 10 kB used")
    assert alice.lock("full.bin").status_code == 201, "locks go on"


@pytest.fixture
def full(stack: Stack, alice: Client, tmp_path: Path) -> Iterator[Client]:
    """Alice at a storage service that takes the disk of the stack for full."""
    told = stack.service("storage").environ()
    settings = {name.removeprefix("TOWPATH_").lower(): text for name, text in told.items() if "TOWPATH_" in name}
    # Pipes of `towpath up`, which this process has not inherited.
    del settings["lifeline_fd"], settings["heartbeat_fd"]
    address = f"unix:{tmp_path / 'storage.sock'}"
    # Nothing fits beside so large a reserve.
    settings |= {"storage_listen": address, "storage_reserve_bytes": str(2**60)}
    with (
        service_process("storage", tmp_path / "storage.log", settings=settings),
        running_second_facade(stack, tmp_path / "facade.log", TOWPATH_STORAGE_ADDRESS=address) as origin,
    ):
        yield alice.at(f"{origin}/demo/assets")


def test_a_full_disk_is_507(alice: Client, full: Client) -> None:
    """A client that still sends its PUT can read the 507, so that its user learns that the disk is full."""
    held, new = alice.upload(new_blob(1000)), new_blob(50_000)
    action = alice.action("upload", new)
    answer = full.batch("upload", new.entry)
    assert answer.status_code == 507
    assert "objects" not in answer.json()
    with raw.Connection(full.base_url) as connection:
        headers = [*action["header"].items(), ("Content-Length", str(new.size)), ("Accept", GENERIC.media_type)]
        connection.begin("PUT", httpx.URL(action["href"]).raw_path, headers)
        connection.send(new.content)
        assert check(connection.answer(), GENERIC).status_code == 507
    assert full.get(full.action("download", held)).content == held.content
    assert "actions" not in full.entry("upload", held)
    assert full.lock("full.bin").status_code == 201
