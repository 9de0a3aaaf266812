"""Lockable paths, each returned as it was sent (docs/protocol.md, "Lock object", path)."""

import json
from urllib.parse import quote, quote_plus

import pytest

from tests.protocol import raw
from tests.protocol.client import Client
from tests.protocol.conftest import NewRepository
from tests.support.stack import Stack

STRANGE = [
    "plain.bin",
    "a b/c d.bin",
    " leading and trailing ",
    "plus+and&=?#;,.bin",
    "100%.bin",
    "%20",
    "%2e%2e",
    "%ff",
    "quotes\"and'apostrophes",
    "back\\slash",
    "new\nline",
    "tab\tand\rreturn",
    "\x01\x1f\x7f",
    "<html>&amp;",
    "ünïcödé/ß/ﬁ",
    "名前/ファイル.psd",
    "😀.bin",
    "\u202eright-to-left",
    "\ufffd",
    "\ufeffbom",
    "...",
    "..a/.b/c..",
    ".gitattributes",
    "a/.../b",
    "C:/x",
    "~/x",
    "-rf",
    "null",
    "x" * 4096,
    "é" * 2048,
]
REFUSED = ["", "/etc/passwd", "a/../b", "a\x00b", "x" * 4097]


@pytest.fixture(scope="package")
def there(new_repository: NewRepository) -> Client:
    """Alice at a repository in which nothing else is locked."""
    return new_repository("contract/paths")


@pytest.mark.parametrize("path", STRANGE, ids=range(len(STRANGE)))
def test_any_relative_path_is_locked_listed_and_unlocked_as_it_is(there: Client, path: str) -> None:
    """A path comes back byte for byte, because clients compare it with the name of the file."""
    lock = there.lock(path).json()["lock"]
    assert lock["path"] == path
    for query in (f"path={quote(path, safe='')}", f"path={quote_plus(path)}"):
        assert there.locks(query).json() == {"locks": [lock]}
    assert there.verify_locks().json()["ours"] == [lock]
    assert there.lock(path).json()["lock"] == lock
    assert there.unlock(lock["id"]).json() == {"lock": lock}


@pytest.mark.parametrize("path", REFUSED, ids=range(len(REFUSED)))
def test_a_path_that_no_working_tree_has_is_422(there: Client, path: str) -> None:
    """A lock protects a file of a working tree, so its path is relative to the root and of limited length."""
    answer = there.lock(path)
    assert answer.status_code == 422
    assert "path" in answer.json()["message"]


def test_paths_are_compared_byte_for_byte(there: Client) -> None:
    """Two spellings may be two files, so paths are not normalised, case-folded or trimmed."""
    paths = ["caf\u00e9", "cafe\u0301", "CAF\u00c9", "Caf\u00e9", " caf\u00e9", "caf\u00e9 ", "ｃａｆé"]
    locks = [there.lock(path).json()["lock"] for path in paths]
    assert len({lock["id"] for lock in locks}) == len(paths)
    for path, lock in zip(paths, locks, strict=True):
        assert there.locks(path=path).json() == {"locks": [lock]}
    for lock in locks:
        assert there.unlock(lock["id"]).status_code == 200


def test_invalid_utf8_in_a_query_is_read_as_it_arrives_in_json(there: Client, stack: Stack) -> None:
    """The git-lfs client sends a raw byte in the query but U+FFFD in the body, so both have to match."""
    lock = there.lock("caf\ufffd.bin").json()["lock"]
    for query in ("path=caf%FF.bin", "path=caf%ff.bin", "path=caf%E9.bin"):
        assert there.locks(query).json() == {"locks": [lock]}
    target = httpx_path(there) + b"?path=caf\xff.bin"
    assert raw.exchange(stack.origin, "GET", target, there.headers(body=False)).status_code in (200, 400)
    assert there.unlock(lock["id"]).status_code == 200


def httpx_path(client: Client) -> bytes:
    """Return the path of the lock list as it goes on the wire."""
    return client.base_url.split("/", 3)[3].join(("/", "/locks")).encode()


def test_invalid_utf8_in_a_body_is_400(there: Client) -> None:
    """JSON is UTF-8, so a body with another encoding is not JSON and must not be guessed at."""
    assert there.post("/locks", b'{"path": "caf\xff.bin"}').status_code == 400


def test_a_lone_surrogate_in_a_path_is_no_server_error(there: Client) -> None:
    """JSON can spell a path that UTF-8 cannot and no client has, and it must not cause a server error."""
    answer = there.post("/locks", b'{"path": "caf\\ud800.bin"}')
    assert answer.status_code in (201, 400, 422)
    if answer.status_code == 201:
        assert there.unlock(answer.json()["lock"]["id"]).status_code == 200


def test_a_path_escaped_in_json_is_the_same_path(there: Client) -> None:
    """A path is the same with or without escapes, because Go escapes `<>&` in requests."""
    lock = there.post("/locks", b'{"path": "a\\u003cb\\u003e\\u0026\\/c"}').json()["lock"]
    assert lock["path"] == "a<b>&/c"
    assert there.lock("a<b>&/c").status_code == 409
    assert json.loads(there.locks(path="a<b>&/c").content)["locks"] == [lock]
    assert there.unlock(lock["id"]).status_code == 200
