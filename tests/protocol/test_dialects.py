"""Media types of the two dialects (docs/protocol.md, "Common request and response conventions" and "Dialects")."""

import gzip
import json

import httpx
import pytest

from services.conformance.blobs import new_blob
from services.conformance.dialects import DIALECTS, GENERIC, Dialect
from tests.protocol.answers import check
from tests.protocol.client import Client

BATCH = json.dumps({"operation": "download", "objects": []}).encode()


def ask(client: Client, accept: str | None, content_type: str | None, expected: Dialect) -> httpx.Response:
    """Send an empty batch with these two headers and check that the answer is in the expected dialect."""
    headers = [("Authorization", client.authorization or "")]
    headers += [("Accept", accept)] if accept is not None else []
    headers += [("Content-Type", content_type)] if content_type is not None else []
    url = f"{client.base_url}/objects/batch"
    return client.speaking(expected).send("POST", url, headers=headers, content=BATCH)


def test_the_answer_is_json_in_the_media_type_that_accept_names(alice: Client, dialect: Dialect) -> None:
    """The client refuses the media type of another dialect, so Accept decides that of the answer (client-13)."""
    answer = ask(alice, dialect.media_type, dialect.media_type, dialect)
    assert answer.status_code == 200
    assert answer.headers["content-type"] == dialect.media_type
    assert answer.json() == {"transfer": "basic", "objects": [], "hash_algo": "sha256"}


@pytest.mark.parametrize("accept", ["*/*", "application/*", None, "text/html, */*;q=0.1"])
def test_content_type_decides_where_accept_names_neither(alice: Client, dialect: Dialect, accept: str | None) -> None:
    """With `*/*` or no Accept, only the Content-Type shows the dialect of the client."""
    assert ask(alice, accept, dialect.media_type, dialect).status_code == 200


@pytest.mark.parametrize("headers", [[], [("Accept", "*/*")]], ids=["none", "wildcard"])
def test_the_neutral_dialect_answers_where_nothing_names_one(alice: Client, headers: list[tuple[str, str]]) -> None:
    """A request that names no dialect is valid, because `GET /locks` needs no Content-Type."""
    headers = [("Authorization", alice.authorization or ""), *headers]
    answer = alice.send("GET", f"{alice.base_url}/locks", headers=headers)
    assert answer.status_code == 200
    assert answer.headers["content-type"] == GENERIC.media_type


@pytest.mark.parametrize("accept", ["text/html", "application/json", "image/png, text/*", "application/vnd.blob"])
def test_an_accept_that_excludes_both_is_406(alice: Client, dialect: Dialect, accept: str) -> None:
    """A client that accepts neither dialect cannot read any answer, so the status is 406."""
    assert ask(alice, accept, dialect.media_type, dialect).status_code == 406


@pytest.mark.parametrize(
    ("method", "path"), [("POST", "/locks"), ("GET", "/locks"), ("POST", "/locks/verify"), ("POST", "/locks/1/unlock")]
)
def test_the_locking_endpoints_answer_406_alike(alice: Client, method: str, path: str) -> None:
    """A client that accepts neither dialect cannot read an answer about locks either, so the status is 406."""
    headers = [("Authorization", alice.authorization or ""), ("Accept", "image/png")]
    headers += [("Content-Type", GENERIC.media_type)] if method == "POST" else []
    answer = alice.send(method, alice.base_url + path, headers=headers, content=b"{}" if method == "POST" else None)
    assert answer.status_code == 406


@pytest.mark.parametrize(
    "content_type", ["text/plain", "application/json", "application/x-www-form-urlencoded", "nonsense", "", None]
)
def test_any_other_content_type_is_415(alice: Client, content_type: str | None) -> None:
    """The service must not guess at a body where neither the Content-Type nor Accept names a dialect."""
    assert ask(alice, "*/*", content_type, GENERIC).status_code == 415


@pytest.mark.parametrize("content_type", ["text/plain;charset=UTF-8", "application/x-www-form-urlencoded", None])
def test_an_accept_that_names_a_dialect_stands_for_the_content_type(
    alice: Client, dialect: Dialect, content_type: str | None
) -> None:
    """`fetch` and curl have types of their own for a text."""
    assert ask(alice, dialect.media_type, content_type, dialect).status_code == 200
    assert ask(alice, dialect.media_type, "text/plain; charset=latin-1", dialect).status_code == 415


@pytest.mark.parametrize(
    "path", ["/locks", "/locks/verify", "/locks/1/unlock", "/locks/batch/lock", "/locks/batch/unlock"]
)
def test_the_locking_endpoints_answer_415_alike(alice: Client, path: str) -> None:
    """The service must not guess at a body on any endpoint if the Content-Type is neither dialect's."""
    headers = [("Authorization", alice.authorization or ""), ("Accept", "*/*"), ("Content-Type", "text/plain")]
    assert alice.send("POST", alice.base_url + path, headers=headers, content=b"{}").status_code == 415


@pytest.mark.parametrize("accept", [None, "*/*", "text/html"])
def test_action_urls_ask_for_no_accept(alice: Client, accept: str | None) -> None:
    """Clients may send any Accept or none to an action URL, so a 406 there would break their transfers."""
    headers = [("Accept", accept)] if accept is not None else []
    blob = new_blob()
    assert alice.put(alice.action("upload", blob), blob.content, *headers).status_code == 200
    answer = alice.get(alice.action("download", blob), *headers)
    assert answer.status_code == 200
    assert answer.content == blob.content


@pytest.mark.parametrize("asked", DIALECTS, ids=lambda asked: asked.name)
def test_errors_of_action_urls_are_in_the_callers_dialect(alice: Client, asked: Dialect) -> None:
    """A client reads errors only in the media type that it speaks, so one renderer makes them for all URLs."""
    blob = new_blob()
    href = alice.action("upload", blob)["href"]
    answer = alice.http.request("GET", href, headers={"Accept": asked.media_type})
    assert check(answer, asked).status_code == 403


@pytest.mark.parametrize("encoding", ["gzip", "br", "identity, gzip", "x"])
def test_an_encoded_body_is_415_and_says_so(alice: Client, dialect: Dialect, encoding: str) -> None:
    """An encoded body is 415 and not "no JSON", which would send people looking in the wrong place."""
    alice = alice.speaking(dialect)
    for path in ("/objects/batch", "/locks", "/locks/verify", "/locks/1/unlock"):
        headers = [*alice.headers(body=True), ("Content-Encoding", encoding)]
        answer = alice.send("POST", f"{alice.base_url}{path}", headers=headers, content=gzip.compress(BATCH))
        assert answer.status_code == 415
        assert answer.json()["message"].startswith("content-encoding: ")


@pytest.mark.parametrize("encoding", ["identity", "Identity", ""])
def test_identity_is_no_encoding(alice: Client, encoding: str) -> None:
    """A body with the encoding `identity` is taken, because nothing was done to it."""
    headers = [*alice.headers(body=True), ("Content-Encoding", encoding)]
    answer = alice.send("POST", f"{alice.base_url}/objects/batch", headers=headers, content=BATCH)
    assert answer.status_code == 200
