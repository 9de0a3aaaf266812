"""Resumable uploads by tus 1.0.0 (docs/protocol.md, "Resumable uploads")."""

import json
import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import Any

import httpx
import pytest

from services.conformance.blobs import Blob, corrupted, new_blob
from services.conformance.dialects import GENERIC, Dialect
from tests.protocol.administration import Administration
from tests.protocol.answers import check
from tests.protocol.client import Action, Client, Headers
from tests.protocol.conftest import NewRepository
from tests.protocol.raw import Connection
from tests.support.second_facade import running_second_facade
from tests.support.stack import Stack
from tests.support.waiting import blocking_until

TRANSFERS = ["lfs-standalone-file", "tus", "basic", "ssh"]
TUS = ("Tus-Resumable", "1.0.0")
TYPE = ("Content-Type", "application/offset+octet-stream")
SIZE = 4 * 1024 * 1024
UNREAD = 512 * 1024
"""More than the server has in memory of a body before it is asked for it."""

Body = bytes | Iterator[bytes] | None


class Uploader:
    """The resumable upload of an object by a client."""

    def __init__(self, client: Client, blob: Blob) -> None:
        self.client = client
        self.blob = blob
        answer = client.batch("upload", blob.entry, transfers=TRANSFERS)
        assert answer.status_code == 200
        self.transfer = answer.json()["transfer"]
        self.actions: dict[str, Any] = answer.json()["objects"][0].get("actions", {})
        self.action: Action = self.actions.get("upload", {})

    def send(
        self, method: str, headers: Headers = (), content: bytes | Iterator[bytes] | None = None
    ) -> httpx.Response:
        """Send a request to the action, and check that the answer is one of tus."""
        sent = [*self.action["header"].items(), *headers]
        answer = self.client.send(method, self.action["href"], headers=sent, content=content)
        assert answer.headers["tus-resumable"] == "1.0.0"
        return answer

    def head(self) -> httpx.Response:
        """Ask for the progress."""
        return self.send("HEAD", [TUS])

    def offset(self) -> int:
        """Ask for the offset, which is all that git-lfs reads."""
        answer = self.head()
        assert answer.status_code == 200
        assert answer.headers["cache-control"] == "no-store"
        assert answer.headers["upload-length"] == str(self.blob.size)
        return int(answer.headers["upload-offset"])

    def patch(self, offset: object, content: Body, *headers: tuple[str, str]) -> httpx.Response:
        """Append bytes."""
        return self.send("PATCH", [TUS, TYPE, ("Upload-Offset", str(offset)), *headers], content)

    def wait_begun(self) -> None:
        """Wait until another request goes on with the upload."""
        # No request with this offset would be taken.
        blocking_until(lambda: self.patch(self.blob.size, b"").status_code == 423, "the upload has begun")

    def verify(self) -> int:
        """Verify the upload, and return the status."""
        return self.client.verify(self.actions["verify"], self.blob.entry).status_code

    def begin(self, connection: Connection, offset: int, length: int | None) -> None:
        """Send the head of a PATCH."""
        framing = ("Content-Length", str(length)) if length is not None else ("Transfer-Encoding", "chunked")
        headers = [*self.action["header"].items(), TUS, TYPE, ("Upload-Offset", str(offset)), framing]
        connection.begin("PATCH", httpx.URL(self.action["href"]).raw_path, headers)


def test_a_client_that_lists_tus_uploads_by_it(alice: Client, dialect: Dialect) -> None:
    """The batch answers tus for uploads, and the requests of the stock client upload the object."""
    upload = Uploader(alice.speaking(dialect), new_blob(SIZE))
    assert upload.transfer == "tus"
    assert set(upload.actions) == {"upload", "verify"}
    assert upload.offset() == 0
    answer = upload.patch(0, upload.blob.content)
    assert (answer.status_code, answer.headers["upload-offset"]) == (204, str(SIZE))
    assert answer.content == b""
    assert upload.verify() == 200
    assert upload.offset() == SIZE
    assert alice.get(alice.action("download", upload.blob)).content == upload.blob.content
    assert Uploader(alice, upload.blob).actions == {}


@pytest.mark.parametrize(
    ("operation", "transfers"),
    [("download", TRANSFERS), ("upload", ["basic"]), ("upload", ["ssh", "basic"]), ("upload", None), ("upload", [])],
)
def test_all_others_get_basic(alice: Client, operation: str, transfers: list[str] | None) -> None:
    """A client that did not list tus could not upload, and the stock client cannot download by it."""
    blob = new_blob()
    assert alice.batch(operation, blob.entry, transfers=transfers).json()["transfer"] == "basic"


def test_a_client_of_tus_alone_is_refused_as_before(alice: Client) -> None:
    """A client lists basic too, because an upload may have to go that way."""
    assert alice.batch("upload", new_blob().entry, transfers=["tus"]).status_code == 422


def test_put_at_the_same_address(alice: Client) -> None:
    """The action of an upload takes PUT as well, whatever arrived before."""
    upload = Uploader(alice, new_blob())
    assert upload.patch(0, upload.blob.content[:10]).status_code == 204
    assert alice.put(upload.action, upload.blob.content).status_code == 200
    assert upload.offset() == upload.blob.size


def test_in_several_requests(alice: Client, dialect: Dialect) -> None:
    """Each answer has the number of bytes that are kept, and the time until which they are."""
    upload = Uploader(alice.speaking(dialect), new_blob(SIZE))
    for start in range(0, SIZE, SIZE // 4):
        assert upload.offset() == start
        answer = upload.patch(start, upload.blob.content[start : start + SIZE // 4])
        assert answer.status_code == 204
        assert answer.headers["upload-offset"] == str(start + SIZE // 4)
        if start + SIZE // 4 < SIZE:
            expires = answer.headers["upload-expires"]
            assert parsedate_to_datetime(expires).tzinfo is not None
            assert upload.head().headers["upload-expires"] == expires
    assert upload.verify() == 200
    assert alice.get(alice.action("download", upload.blob)).content == upload.blob.content


@pytest.mark.parametrize("framing", ["length", "chunks"])
@pytest.mark.parametrize("end", ["close", "reset"])
def test_what_arrived_before_a_cut_is_kept(alice: Client, framing: str, end: str) -> None:
    """Bytes that the server has read are kept, and a reset loses only those that it has not read yet."""
    upload = Uploader(alice, new_blob(SIZE))
    half = upload.blob.content[: SIZE // 2]
    with Connection(upload.action["href"]) as connection:
        if framing == "length":
            upload.begin(connection, 0, SIZE)
            connection.send(half)
        else:
            upload.begin(connection, 0, None)
            connection.send_chunk(half)
        upload.wait_begun()
        if end == "reset":
            connection.reset()
    offset = upload.offset()
    assert (SIZE // 2 - UNREAD if end == "close" else 0) <= offset <= SIZE // 2
    answer = upload.patch(offset, upload.blob.content[offset:])
    assert (answer.status_code, answer.headers["upload-offset"]) == (204, str(SIZE))
    assert upload.verify() == 200
    assert alice.get(alice.action("download", upload.blob)).content == upload.blob.content


def test_a_body_in_chunks(alice: Client) -> None:
    """A body needs no length, because the offset says which bytes are missing."""
    upload = Uploader(alice, new_blob(SIZE))
    content = upload.blob.content
    answer = upload.patch(0, iter([content[:1000], content[1000:3000]]))
    assert (answer.status_code, answer.headers["upload-offset"]) == (204, "3000")
    assert upload.patch(3000, iter([content[3000:]])).status_code == 204
    assert upload.verify() == 200


def test_an_empty_body_changes_nothing(alice: Client) -> None:
    """A request without bytes is answered with the progress."""
    upload = Uploader(alice, new_blob())
    for offset in (0, 10):
        answer = upload.patch(offset, b"")
        assert (answer.status_code, answer.headers["upload-offset"]) == (204, str(offset))
        if not offset:
            assert upload.patch(0, upload.blob.content[:10]).status_code == 204


@pytest.mark.parametrize("cuts", [[], [1000], [1000, 2000]])
def test_wrong_bytes_are_400_at_the_end_and_begin_anew(alice: Client, cuts: list[int]) -> None:
    """Wrong bytes are known only at their end, and none of them is kept."""
    upload = Uploader(alice, new_blob(3000))
    wrong = corrupted(upload.blob.content)
    for start, end in zip([0, *cuts], cuts, strict=False):
        assert upload.patch(start, wrong[start:end]).status_code == 204
    begin = cuts[-1] if cuts else 0
    answer = upload.patch(begin, wrong[begin:])
    assert answer.status_code == 400
    assert "expected the SHA-256" in answer.json()["message"]
    assert upload.offset() == 0
    assert upload.verify() == 404
    assert upload.patch(0, upload.blob.content).status_code == 204
    assert upload.verify() == 200


def test_another_offset_is_409_with_the_offset(alice: Client) -> None:
    """A client learns from the refusal where to go on, and nothing is lost."""
    upload = Uploader(alice, new_blob(3000))
    assert upload.patch(0, upload.blob.content[:1000]).status_code == 204
    for offset in (0, 999, 1001, 3000):
        answer = upload.patch(offset, b"")
        assert (answer.status_code, answer.headers["upload-offset"]) == (409, "1000")
        assert "1000" in answer.json()["message"]
    assert upload.offset() == 1000


@pytest.mark.parametrize("offset", ["", "-1", "1.0", "0x1", "3001", str(2**63), "9" * 30, "+1", "one"])
def test_an_offset_that_is_none_is_400(alice: Client, offset: str) -> None:
    """An offset is a whole number, at most the size."""
    upload = Uploader(alice, new_blob(3000))
    answer = upload.patch(offset, b"x")
    assert answer.status_code == 400
    assert "upload-offset" in answer.json()["message"]


def test_a_missing_offset_is_400(alice: Client) -> None:
    """A PATCH without an offset is refused, because its place is unknown."""
    upload = Uploader(alice, new_blob())
    assert upload.send("PATCH", [TUS, TYPE], b"x").status_code == 400


def test_more_than_the_rest_is_400_and_loses_nothing(alice: Client) -> None:
    """A body that is too long is refused by its length, or at the first chunk too many, and loses nothing."""
    upload = Uploader(alice, new_blob(3000))
    content = upload.blob.content
    assert upload.patch(0, content[:1000]).status_code == 204
    assert upload.patch(1000, content[1000:] + b"x").status_code == 400
    assert upload.offset() == 1000
    assert upload.patch(1000, iter([content[1000:], b"x"])).status_code == 400
    assert upload.offset() == 3000
    assert upload.verify() == 200


def test_one_of_two_at_once_is_423(alice: Client, bob: Client) -> None:
    """Two requests never mix, and a client that asks for the progress waits until the other has ended."""
    upload = Uploader(alice, new_blob(SIZE))
    content = upload.blob.content
    with Connection(upload.action["href"]) as connection, ThreadPoolExecutor(1) as pool:
        upload.begin(connection, 0, SIZE)
        connection.send(content[: SIZE // 2])
        upload.wait_begun()
        refused = upload.patch(0, content)
        assert (refused.status_code, refused.headers["retry-after"]) == (423, "1")
        asked = pool.submit(upload.offset)
        connection.send(content[SIZE // 2 :])
        assert check(connection.answer(), GENERIC).status_code == 204
        assert asked.result() == SIZE
    assert upload.verify() == 200
    assert bob.get(bob.action("download", upload.blob)).content == content


def test_another_user_does_not_wait(new_repository: NewRepository, operator: Administration) -> None:
    """Two users may upload one object at once, and neither continues bytes of the other."""
    mine = new_repository("contract/shared-upload")
    yours = mine.showing(f"Bearer {operator.add_user('dora')}")
    operator.grant("dora", "contract/shared-upload", "write")
    blob = new_blob(3000)
    first, second = Uploader(mine, blob), Uploader(yours, blob)
    assert first.patch(0, corrupted(blob.content[:1000])).status_code == 204
    assert second.offset() == 0
    assert second.patch(0, blob.content).status_code == 204
    assert second.verify() == 200
    assert first.offset() == 3000


@pytest.mark.parametrize("method", ["HEAD", "PATCH"])
@pytest.mark.parametrize("version", ["0.2.2", "1.0", "", "1.0.0, 0.2.2"])
def test_another_version_is_412(alice: Client, method: str, version: str) -> None:
    """The refusal of another version names the version that is supported."""
    upload = Uploader(alice, new_blob())
    answer = upload.send(method, [("Tus-Resumable", version), TYPE, ("Upload-Offset", "0")], None)
    assert (answer.status_code, answer.headers["tus-version"]) == (412, "1.0.0")


def test_a_patch_without_a_version_is_412(alice: Client) -> None:
    """A PATCH names its version, because it is a method of tus alone."""
    upload = Uploader(alice, new_blob())
    answer = upload.send("PATCH", [TYPE, ("Upload-Offset", "0")], b"x")
    assert (answer.status_code, answer.headers["tus-version"]) == (412, "1.0.0")


@pytest.mark.parametrize("content_type", [None, "application/octet-stream", "", "application/offset+octet-streams"])
def test_another_content_type_is_415(alice: Client, content_type: str | None) -> None:
    """Bytes that continue an upload have a media type of their own."""
    upload = Uploader(alice, new_blob())
    headers = [TUS, ("Upload-Offset", "0"), *([] if content_type is None else [("Content-Type", content_type)])]
    assert upload.send("PATCH", headers, b"x").status_code == 415
    assert upload.offset() == 0


@pytest.mark.parametrize("method", ["HEAD", "PATCH"])
def test_another_token_is_403(alice: Client, method: str) -> None:
    """Any token but that of the upload is 403, because a client repeats a 401 for ever (client-5)."""
    upload = Uploader(alice, new_blob())
    for header in ({}, {"X-Towpath-Token": "wrong"}, upload.actions["verify"]["header"]):
        upload.action = {**upload.action, "header": header}
        assert upload.send(method, [TUS, TYPE, ("Upload-Offset", "0")], None).status_code == 403


def test_head_without_tus_is_that_of_a_download(alice: Client) -> None:
    """A HEAD without the header of tus is that of a download."""
    blob = alice.upload(new_blob())
    answer = alice.get(alice.action("download", blob), method="HEAD")
    assert answer.status_code == 200
    assert "tus-resumable" not in answer.headers
    assert alice.get(alice.action("download", blob), TUS, method="HEAD").status_code == 403
    assert alice.get(Uploader(alice, new_blob()).action, method="HEAD").status_code == 403


def test_options_tell_what_is_supported(alice: Client) -> None:
    """A client of tus may ask for the supported version first, without credentials."""
    upload = Uploader(alice, new_blob())
    upload.action = {"href": upload.action["href"], "header": {}}
    answer = upload.send("OPTIONS")
    assert answer.status_code == 204
    assert (answer.headers["tus-version"], answer.headers["tus-extension"]) == ("1.0.0", "expiration")
    assert int(answer.headers["tus-max-size"]) > 0


def test_a_removed_object_is_410(alice: Client, operator: Administration) -> None:
    """An object that was removed cannot be uploaded in parts either."""
    blob = new_blob()
    upload = Uploader(alice, blob)
    alice.upload(blob)
    operator.remove_object("demo/assets", blob.oid, "a licence")
    operator.until(410, upload.head)
    operator.until(410, lambda: upload.patch(0, blob.content))


def test_requests_are_logged_and_counted_as_operations(alice: Client, stack: Stack) -> None:
    """An operator finds the requests in the log, with their operations and bytes."""
    upload = Uploader(alice, new_blob(3000))
    upload.offset()
    request_id = upload.patch(0, upload.blob.content).headers["x-request-id"]

    def lines() -> list[dict[str, Any]]:
        return [json.loads(line) for line in stack.log().splitlines() if line.startswith("{") and request_id in line]

    blocking_until(lambda: any(line["event"] == "request" for line in lines()), "the request is logged")
    (facade,) = [line for line in lines() if line["event"] == "request"]
    assert (facade["operation"], facade["status"], facade["bytes_in"]) == ("append", 204, 3000)
    (storage,) = [line for line in lines() if line.get("method", "").endswith("/AppendPartialUpload")]
    assert (storage["oid"], storage["bytes_in"]) == (upload.blob.oid, 3000)
    assert re.search(r'"operation": ?"upload_offset"', stack.log())


def test_slow_and_silent_bodies_are_408_and_kept(stack: Stack, alice: Client, tmp_path: Path) -> None:
    """The bounds of a body are those of PUT, and what arrived within them is kept."""
    upload = Uploader(alice, new_blob(SIZE))
    with running_second_facade(stack, tmp_path / "log", TOWPATH_BODY_IDLE_SECONDS="1") as origin:
        upload.action = {**upload.action, "href": upload.action["href"].replace(stack.origin, origin)}
        with Connection(upload.action["href"]) as connection:
            upload.begin(connection, 0, SIZE)
            connection.send(upload.blob.content[:5000])
            answer = check(connection.answer(), GENERIC)
        assert (answer.status_code, answer.headers["tus-resumable"]) == (408, "1.0.0")
        assert upload.offset() == 5000


def test_where_it_is_switched_off(small_alice: Client) -> None:
    """Clients that list tus upload as others do where uploads are kept for 0 days."""
    upload = Uploader(small_alice, new_blob())
    assert upload.transfer == "basic"
    assert upload.head().status_code == 501
    assert upload.patch(0, b"x").status_code == 501
