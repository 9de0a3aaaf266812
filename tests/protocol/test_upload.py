"""The upload action and its PUT (docs/protocol.md, "Basic transfer: upload action" and "Actions")."""

from collections.abc import Iterator

import pytest

from services.conformance.blobs import Blob, corrupted, new_blob
from services.conformance.dialects import Dialect
from tests.protocol.administration import Administration
from tests.protocol.client import Client
from tests.support.stack import Stack

SIZE = 100_000


def chunks(content: bytes, size: int = 16_384) -> Iterator[bytes]:
    """Return the bytes in pieces: httpx sends them chunked, without Content-Length."""
    for start in range(0, len(content), size):
        yield content[start : start + size]


def assert_nothing_is_stored(client: Client, stack: Stack, blob: Blob) -> None:
    """Assert that an object is not held, that the next batch offers its upload, and that no file is left over."""
    assert client.entry("download", blob)["error"]["code"] == 404
    assert client.entry("upload", blob)["actions"].keys() == {"upload", "verify"}
    assert not list(stack.data.rglob(f"{blob.oid}*"))


@pytest.mark.parametrize("size", [0, 1, 5 * 1024 * 1024])
def test_put_takes_chunks_without_a_length(alice: Client, size: int) -> None:
    """A client that does not know the length beforehand sends chunks, so PUT takes both."""
    blob = new_blob(size) if size else Blob(b"")
    action = alice.entry("upload", blob).get("actions", {}).get("upload")
    if action is not None:  # the empty object may be held already
        assert alice.put(action, chunks(blob.content)).status_code == 200
    assert alice.holds(blob)


@pytest.mark.parametrize(
    "content_type",
    [
        "application/vnd.blob+json",
        "multipart/form-data; boundary=x",
        "application/x-www-form-urlencoded",
        "application/x-gzip",
        "",
    ],
)
def test_put_takes_any_content_type(alice: Client, content_type: str) -> None:
    """The git-lfs client guesses the Content-Type, so PUT takes any and stores the bytes verbatim (client-10)."""
    blob = Blob(b'{"a": 1}\r\n--x\r\n%41=+' + new_blob().content)
    assert alice.put(alice.action("upload", blob), blob.content, ("Content-Type", content_type)).status_code == 200
    assert alice.get(alice.action("download", blob)).content == blob.content


def test_put_takes_no_content_type(alice: Client) -> None:
    """A client may send no Content-Type at all, and PUT needs none."""
    blob = new_blob()
    action = alice.action("upload", blob)
    assert alice.send("PUT", action["href"], headers=action["header"].items(), content=blob.content).status_code == 200
    assert alice.holds(blob)


@pytest.mark.parametrize("chunked", [False, True], ids=["length", "chunks"])
def test_bytes_of_another_hash_are_400_and_store_nothing(
    alice: Client, stack: Stack, dialect: Dialect, chunked: bool
) -> None:
    """Wrong bytes must never be stored under a right oid, so a mismatch is 400 (client-1, trap-1)."""
    alice, blob = alice.speaking(dialect), new_blob(SIZE)
    wrong = corrupted(blob.content)
    answer = alice.put(
        alice.action("upload", blob), chunks(wrong) if chunked else wrong, ("Accept", dialect.media_type)
    )
    assert answer.status_code == 400, "never 422: the client takes it for success; never 401: it would loop"
    assert_nothing_is_stored(alice, stack, blob)


@pytest.mark.parametrize("difference", [-SIZE, -1, 1])
@pytest.mark.parametrize("chunked", [False, True], ids=["length", "chunks"])
def test_bytes_of_another_size_are_400_and_store_nothing(
    alice: Client, stack: Stack, chunked: bool, difference: int
) -> None:
    """The server counts the bytes that arrive, because a length may be wrong or absent (trap-5)."""
    blob = new_blob(SIZE)
    wrong = (blob.content + b"x" * difference) if difference > 0 else blob.content[:difference]
    action = alice.action("upload", blob)
    assert alice.put(action, chunks(wrong) if chunked else wrong).status_code == 400
    assert_nothing_is_stored(alice, stack, blob)


def test_an_object_removed_meanwhile_is_410(alice: Client, operator: Administration) -> None:
    """An older action uploads no removed object, because the removal would have no effect otherwise."""
    blob = new_blob()
    actions = alice.entry("upload", blob)["actions"]
    alice.upload(blob)
    operator.remove_object("demo/assets", blob.oid, "licence withdrawn")
    operator.until(410, lambda: alice.put(actions["upload"], blob.content))
    operator.until(410, lambda: alice.verify(actions["verify"], blob.entry))
    assert alice.entry("download", blob)["error"]["code"] == 410
