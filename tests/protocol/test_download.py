"""The download action: ranges, HEAD and ETag (docs/protocol.md, "Basic transfer: download action")."""

import pytest

from services.conformance.blobs import Blob, corrupted, new_blob
from services.conformance.dialects import Dialect
from tests.protocol.administration import Administration
from tests.protocol.client import Action, Client
from tests.support.stack import Stack
from tests.support.storage import stored_path

SIZE = 3 * 1024 * 1024 + 7
"""More than two messages of the stream between the services."""


@pytest.fixture(scope="module")
def blob(alice: Client) -> Blob:
    """An object that is held."""
    return alice.upload(new_blob(SIZE))


@pytest.fixture(scope="module")
def action(alice: Client, blob: Blob) -> Action:
    """The download action of that object."""
    return alice.action("download", blob)


def test_get_never_encodes_the_bytes(alice: Client, action: Action, blob: Blob) -> None:
    """The client offers gzip and zstd, but an encoded body would not match the object's size and oid."""
    answer = alice.get(action, ("Accept-Encoding", "gzip, zstd"))
    assert answer.content == blob.content
    assert answer.headers["content-length"] == str(blob.size)
    assert not {"content-encoding", "transfer-encoding"} & answer.headers.keys()


@pytest.mark.parametrize("size", [1, 65535, 65536, 65537, 1024 * 1024, 1024 * 1024 + 1, 5 * 1024 * 1024 + 1])
def test_every_size_comes_back_whole(alice: Client, size: int) -> None:
    """A size at the edge of a chunk must not lose or repeat bytes."""
    blob = alice.upload(new_blob(size))
    answer = alice.get(alice.action("download", blob))
    assert answer.content == blob.content
    assert answer.headers["content-length"] == str(size)


def test_head_tells_the_same_without_the_bytes(alice: Client, action: Action, blob: Blob) -> None:
    """A client relies on HEAD to tell the Content-Length and the ETag of the GET that follows."""
    whole, head = alice.get(action), alice.get(action, method="HEAD")
    assert head.status_code == 200
    for name in ("content-type", "content-length", "etag", "accept-ranges"):
        assert head.headers[name] == whole.headers[name]
    assert whole.headers["etag"] == f'"{blob.oid}"'
    assert whole.headers["accept-ranges"] == "bytes"


@pytest.mark.parametrize(
    ("value", "first", "last"),
    [
        (f"bytes=100-{SIZE}", 100, SIZE - 1),
        (f"bytes={1024 * 1024 - 1}-{1024 * 1024}", 1024 * 1024 - 1, 1024 * 1024),
        ("bytes=-5", SIZE - 5, SIZE - 1),
    ],
)
def test_a_range_of_several_messages_is_exactly_those_bytes(
    alice: Client, action: Action, blob: Blob, value: str, first: int, last: int
) -> None:
    """A range is whole although several messages of the stream between the services have its bytes (206; trap-8)."""
    answer = alice.get(action, ("Range", value))
    assert answer.status_code == 206
    assert answer.headers["content-range"] == f"bytes {first}-{last}/{SIZE}"
    assert answer.headers["content-length"] == str(last - first + 1)
    assert answer.headers["content-type"] == "application/octet-stream"
    assert answer.content == blob.content[first : last + 1]


def test_a_416_names_the_size(alice: Client, action: Action) -> None:
    """A client whose range is past the end, also past 4 GiB, learns the size of the object (416; trap-7)."""
    answer = alice.get(action, ("Range", f"bytes={2**32}-"))
    assert answer.status_code == 416
    assert answer.headers["content-range"] == f"bytes */{SIZE}"


@pytest.mark.parametrize("value", ["", "bytes=1-\xb2", "bytes=0-1,5-6"])
def test_a_range_that_is_not_understood_is_answered_with_the_whole(
    alice: Client, action: Action, blob: Blob, value: str
) -> None:
    """A range that is not understood is answered with the whole, because wrong bytes would spoil the client's file."""
    answer = alice.get(action, ("Range", value))
    assert answer.status_code == 200
    assert answer.content == blob.content


@pytest.mark.parametrize(("value", "status"), [("bytes=0-", 416), ("bytes=0-0", 416), ("bytes=-1", 200)])
def test_nothing_has_no_first_byte(alice: Client, value: str, status: int) -> None:
    """An offset at or past the size is 416, but the last bytes of nothing are the whole of it."""
    answer = alice.get(alice.action("download", alice.upload(Blob(b""))), ("Range", value))
    assert answer.status_code == status
    assert answer.headers.get("content-range") == ("bytes */0" if status == 416 else None)
    assert (answer.content == b"") is (status == 200)


@pytest.mark.parametrize("more", [(), ("Range",), ("Range", "If-None-Match")])
@pytest.mark.parametrize("value", ['"other"', 'W/"{oid}"', "{oid}", '"a", "b"', ""])
def test_another_object_than_if_match_names_is_412(
    alice: Client, action: Action, blob: Blob, dialect: Dialect, value: str, more: tuple[str, ...]
) -> None:
    """If-Match goes before Range and If-None-Match, and no weak tag matches (RFC 9110, 13.1.1 and 13.2.2)."""
    alice = alice.speaking(dialect)
    others = {"Range": "bytes=0-1", "If-None-Match": f'"{blob.oid}"'}
    headers = [("Accept", dialect.media_type), ("If-Match", value.format(oid=blob.oid))]
    headers += [(name, others[name]) for name in more]
    answer = alice.get(action, *headers)
    assert answer.status_code == 412
    assert answer.json()["message"].startswith("if-match: ")
    assert alice.get(action, *headers, method="HEAD").status_code == 412


@pytest.mark.parametrize("value", ["*", '"{oid}"', '"other", "{oid}"'])
def test_the_object_that_if_match_names_is_sent(alice: Client, action: Action, blob: Blob, value: str) -> None:
    """A resumed download may name its object in If-Match, so that both parts are of one object."""
    header = ("If-Match", value.format(oid=blob.oid))
    answer = alice.get(action, header, ("Range", "bytes=0-1"))
    assert (answer.status_code, answer.content) == (206, blob.content[:2])
    assert alice.get(action, header, method="HEAD").status_code == 200


def test_an_object_removed_meanwhile_is_410(alice: Client, operator: Administration, dialect: Dialect) -> None:
    """An object removed after its action was handed out is 410, because the action may outlive the object."""
    alice = alice.speaking(dialect)
    blob = alice.upload(new_blob())
    action = alice.action("download", blob)
    operator.remove_object("demo/assets", blob.oid, "licence withdrawn")
    answer = operator.until(410, lambda: alice.get(action, ("Accept", dialect.media_type)))
    assert "licence withdrawn" in answer.json()["message"]
    assert alice.get(action, method="HEAD").status_code == 410
    # A condition holds only for what would be answered without it.
    assert alice.get(action, ("Accept", dialect.media_type), ("If-Match", '"other"')).status_code == 410


@pytest.mark.parametrize("oid", ["0" * 64, "A" * 64, "x", "../objects", "%2e%2e", "batch2", "a" * 5000])
def test_a_guessed_address_is_403(alice: Client, stack: Stack, oid: str) -> None:
    """A guessed URL without a token opens nothing, so that a known oid alone gives no access."""
    answer = alice.get({"href": f"{stack.base_url}/objects/{oid}"})
    assert answer.status_code in (403, 404)


def test_a_corrupt_object_is_not_deleted_by_reading_it(alice: Client, stack: Stack) -> None:
    """A corrupt object may be the only copy, so reading it must not delete it (trap-6)."""
    blob = alice.upload(new_blob())
    path = stored_path(stack.data / "storage", blob.oid)
    path.chmod(0o600)
    path.write_bytes(corrupted(blob.content))
    action = alice.action("download", blob)
    for _ in range(2):
        alice.http.get(action["href"], headers=action["header"])
    assert path.read_bytes() == corrupted(blob.content)
