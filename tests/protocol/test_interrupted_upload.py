"""Cut, stalled, early refused and concurrent uploads (docs/protocol.md, "Actions")."""

from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest

from services.conformance.blobs import Blob, corrupted, new_blob
from services.conformance.dialects import GENERIC
from tests.protocol.answers import check
from tests.protocol.client import Action, Client
from tests.protocol.raw import Connection
from tests.support.stack import Stack
from tests.support.waiting import blocking_until

SIZE = 4 * 1024 * 1024
BIG = 12 * 1024 * 1024


def begin(connection: Connection, action: Action, *headers: tuple[str, str]) -> None:
    """Send the head of a PUT."""
    target = httpx.URL(action["href"]).raw_path
    connection.begin("PUT", target, [*action.get("header", {}).items(), ("Accept", GENERIC.media_type), *headers])


def wait_for_files(stack: Stack, blob: Blob, count: int) -> None:
    """Wait until so many files bear the oid, because a left-over file is swept a moment later."""
    blocking_until(lambda: len(list(stack.data.rglob(f"{blob.oid}*"))) == count, f"{count} files bear {blob.oid}")


@pytest.mark.parametrize("framing", ["length", "chunks"])
@pytest.mark.parametrize("end", ["close", "reset"])
def test_a_cut_upload_leaves_nothing(alice: Client, stack: Stack, framing: str, end: str) -> None:
    """A cut upload must leave no short file that counts as present or blocks later uploads (trap-2, trap-3)."""
    blob = new_blob(SIZE)
    action = alice.action("upload", blob)
    half = blob.content[: SIZE // 2]
    with Connection(stack.origin) as connection:
        if framing == "length":
            begin(connection, action, ("Content-Length", str(SIZE)))
            connection.send(half)
        else:
            begin(connection, action, ("Transfer-Encoding", "chunked"))
            connection.send_chunk(half)
        if end == "reset":
            connection.reset()
    wait_for_files(stack, blob, 0)
    assert not alice.holds(blob)
    assert alice.put(action, blob.content).status_code == 200
    assert alice.get(alice.action("download", blob)).content == blob.content


def test_nothing_is_visible_before_it_is_verified(alice: Client, stack: Stack) -> None:
    """A GET must never see partial data, so bytes are invisible before they are verified."""
    blob = new_blob(SIZE)
    actions = alice.entry("upload", blob)["actions"]
    with Connection(stack.origin) as connection:
        begin(connection, actions["upload"], ("Content-Length", str(SIZE)))
        connection.send(blob.content[:-1])
        assert not alice.holds(blob)
        assert alice.verify(actions["verify"], blob.entry).status_code == 404
        connection.send(blob.content[-1:])
        assert connection.answer().status_code == 200
    assert alice.holds(blob)


def test_a_stalled_upload_hinders_no_other_of_the_same_object(alice: Client, stack: Stack) -> None:
    """A client may start again while its first upload still runs, and both must succeed (client-19, trap-4)."""
    blob = new_blob(SIZE)
    action = alice.action("upload", blob)
    with Connection(stack.origin) as stalled:
        begin(stalled, action, ("Content-Length", str(SIZE)))
        stalled.send(blob.content[: SIZE // 2])
        assert alice.put(action, blob.content).status_code == 200
        assert alice.get(alice.action("download", blob)).content == blob.content
        stalled.send(blob.content[SIZE // 2 :])
        assert stalled.answer().status_code == 200
    assert alice.get(alice.action("download", blob)).content == blob.content


def test_all_right_uploads_of_one_object_at_once_succeed(alice: Client, stack: Stack) -> None:
    """Two clients may upload one object at once, and right bytes must never get an error (trap-4, trap-13)."""
    for _ in range(3):
        blob = new_blob(SIZE)
        action = alice.action("upload", blob)
        bodies = [blob.content] * 7 + [corrupted(blob.content)]
        with ThreadPoolExecutor(len(bodies)) as pool:
            answers = list(pool.map(alice.put, [action] * len(bodies), bodies))
        assert [answer.status_code for answer in answers] == [200] * 7 + [400]
        assert alice.get(alice.action("download", blob)).content == blob.content
        wait_for_files(stack, blob, 1)
        assert alice.get(alice.action("download", blob)).content == blob.content


def test_many_objects_at_once_are_all_stored(alice: Client) -> None:
    """Many first uploads at once must all succeed, although they create the same folders (trap-13)."""
    blobs = [new_blob() for _ in range(40)]
    entries = alice.batch("upload", *(blob.entry for blob in blobs)).json()["objects"]
    with ThreadPoolExecutor(8) as pool:
        answers = pool.map(
            lambda pair: alice.put(pair[0]["actions"]["upload"], pair[1].content), zip(entries, blobs, strict=True)
        )
        assert {answer.status_code for answer in answers} == {200}
    assert all("actions" in entry for entry in alice.batch("download", *(b.entry for b in blobs)).json()["objects"])


def send_all(connection: Connection, content: bytes) -> None:
    """Send a whole body as a client does that does not look for an answer meanwhile."""
    for start in range(0, len(content), 65_536):
        connection.send(content[start : start + 65_536])


def early_refusals(action: Action) -> Iterable[tuple[int, Action, list[tuple[str, str]]]]:
    """Return PUTs of BIG bytes that can be refused by their heads alone."""
    length = [("Content-Length", str(BIG))]
    yield 403, {"href": action["href"]}, length
    yield 403, {**action, "header": {"X-Towpath-Token": "wrong"}}, length
    yield 400, action, length


@pytest.mark.parametrize("sent", [0, BIG], ids=["before the body", "after it"])
@pytest.mark.parametrize("which", range(3), ids=["no token", "bad token", "wrong length"])
def test_an_upload_refused_by_its_head_is_answered_readably(alice: Client, stack: Stack, which: int, sent: int) -> None:
    """The git-lfs client repeats a refused upload, so a refusal does not wait for the body (client-17).

    A client that still sends can read it, because a bounded part is drained (client-early-refusal).
    """
    action = alice.action("upload", new_blob(SIZE))
    status, refused, headers = list(early_refusals(action))[which]
    with Connection(stack.origin) as connection:
        begin(connection, refused, *headers)
        send_all(connection, bytes(sent))
        answer = check(connection.answer(), GENERIC)
    assert answer.status_code == status
    assert status == 403 or "content-length" in answer.json()["message"]


@pytest.mark.parametrize("size", [64, 1024 * 1024, SIZE])
@pytest.mark.parametrize("excess", ["one byte", "twice"])
def test_chunks_are_refused_as_soon_as_they_are_too_many(alice: Client, stack: Stack, size: int, excess: str) -> None:
    """Chunks that exceed the announced size are refused at once, because their end may never arrive."""
    blob = new_blob(size)
    action = alice.action("upload", blob)
    with Connection(stack.origin) as connection:
        begin(connection, action, ("Transfer-Encoding", "chunked"))
        connection.send_chunk(blob.content)
        connection.send_chunk(bytes(1 if excess == "one byte" else size))
        assert check(connection.answer(), GENERIC).status_code == 400
    assert not alice.holds(blob)
