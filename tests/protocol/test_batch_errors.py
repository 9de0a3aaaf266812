"""Requests that a batch refuses as a whole (protocol: Status codes of batch responses)."""

from collections.abc import Callable

import httpx
import pytest

from services.conformance.blobs import new_blob
from services.conformance.dialects import Dialect
from tests.protocol.administration import Administration
from tests.protocol.answers import ERROR_KEYS
from tests.protocol.client import Client
from tests.protocol.conftest import NewRepository
from tests.support.stack import Stack

REFUSED: dict[str, tuple[int, Callable[[Client], httpx.Response]]] = {
    "no JSON": (400, lambda client: client.post("/objects/batch", b"{")),
    "no credentials": (401, lambda client: client.showing(None).batch("download", new_blob().entry)),
    "bad credentials": (401, lambda client: client.showing("Bearer wrong").batch("download", new_blob().entry)),
    "may only read": (403, lambda client: client.batch("upload", new_blob().entry)),
    "no repository": (404, lambda client: client.at(client.base_url + "x").batch("download", new_blob().entry)),
    "too many objects": (413, lambda client: client.batch("download", *[new_blob().entry] * 1001)),
    "too many bytes": (413, lambda client: client.post("/objects/batch", b" " * (10 * 1024 * 1024 + 1))),
    "no operation": (422, lambda client: client.post("/objects/batch", {"objects": []})),
    "no transfer": (422, lambda client: client.batch("download", new_blob().entry, transfers=["tus"])),
    "no valid object": (
        422,
        lambda client: client.batch("upload", {"oid": "x", "size": 1}, ref={"name": "refs/heads/bob"}),
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_refused_batch_has_an_error_body_without_objects(bob: Client, dialect: Dialect, case: str) -> None:
    """A refused batch has no `objects`, so that no client takes its error for an answer about objects."""
    status, send = REFUSED[case]
    answer = send(bob.speaking(dialect))
    assert answer.status_code == status
    assert "objects" not in answer.json()
    assert {"message", "request_id"} <= answer.json().keys() <= ERROR_KEYS


@pytest.mark.parametrize("operation", ["download", "upload"])
def test_a_repository_that_the_user_may_not_see_is_404_like_one_that_is_not_there(
    carol: Client, stack: Stack, dialect: Dialect, operation: str
) -> None:
    """A hidden repository must look like a missing one, because otherwise users would learn that it exists."""
    carol, blob = carol.speaking(dialect), new_blob()
    hidden = carol.batch(operation, blob.entry)
    unknown = carol.at(f"{stack.origin}/no/such").batch(operation, blob.entry)
    assert hidden.status_code == unknown.status_code == 404
    said = [
        answer.json()["message"].replace(name, "") for answer, name in ((hidden, "demo/assets"), (unknown, "no/such"))
    ]
    assert said[0] == said[1]


def test_a_refused_batch_of_many_objects_is_readable(alice: Client) -> None:
    """The server drains an oversized batch, so that a client that sends all of it can read the 413."""
    for _ in range(3):
        assert alice.post("/objects/batch", b" " * (20 * 1024 * 1024)).status_code == 413


def test_an_archived_repository_is_403_for_whoever_writes(
    operator: Administration, new_repository: NewRepository, dialect: Dialect
) -> None:
    """An archived repository may be read and keeps its locks; whoever writes reads that it is archived."""
    name = f"contract/archived-{dialect.name}"
    alice = new_repository(name).speaking(dialect)
    held, lost = alice.upload(new_blob()), new_blob()
    lock = alice.lock("kept.bin").json()["lock"]
    upload, verify = alice.action("upload", lost), alice.action("verify", lost)
    operator.archive_repository(name)
    refused = [
        operator.until(403, lambda: alice.batch("upload", lost.entry)),
        alice.put(upload, lost.content, ("Accept", dialect.media_type)),
        alice.verify(verify, lost.entry),
        alice.lock("new.bin"),
        alice.unlock(lock["id"]),
        alice.unlock(lock["id"], force=True),
        alice.verify_locks(),
    ]
    assert [answer.status_code for answer in refused] == [403] * len(refused)
    assert all("archived" in answer.json()["message"] for answer in refused)
    assert alice.get(alice.action("download", held)).content == held.content
    assert alice.locks().json()["locks"] == [lock]
