"""The Error body and the request id of every error status (docs/protocol.md, "Error body")."""

import json

import pytest

from services.conformance.blobs import new_blob
from services.conformance.dialects import GENERIC, Dialect
from tests.protocol import raw
from tests.protocol.client import Client
from tests.support.stack import Stack
from tests.support.waiting import until


def test_an_error_has_a_message_and_the_request_id(alice: Client, stack: Stack, dialect: Dialect) -> None:
    """A user reports an error by its request id, and documentation_url is there only if an address is configured."""
    answer = alice.speaking(dialect).at(f"{stack.origin}/no/such").batch("download", new_blob().entry)
    assert answer.status_code == 404
    assert answer.json().keys() == {"message", "request_id"}
    assert answer.json()["request_id"] == answer.headers["x-request-id"]


@pytest.mark.parametrize(
    "path",
    [
        "/",
        "/x",
        "/demo/assets",
        "/demo/assets/",
        "/demo/assets/objects",
        "/demo/assets/objects/",
        "/demo/assets/info",
        "/demo/assets/locks/",
        "/demo/assets/locks/1",
        "/demo/assets/batch",
        "/favicon.ico",
        "/%ff",
        "/..",
        "/docs",
    ],
)
@pytest.mark.parametrize("method", ["GET", "POST", "PUT", "DELETE"])
def test_unknown_addresses_are_404_with_an_error_body(alice: Client, dialect: Dialect, method: str, path: str) -> None:
    """A client parses every error, so unknown routes have an Error body too."""
    origin = alice.base_url.removesuffix("/demo/assets")
    headers = [("Accept", dialect.media_type)]
    assert alice.speaking(dialect).send(method, origin + path, headers=headers).status_code == 404


@pytest.mark.parametrize("path", ["/objects/batch", "/locks", "/locks/verify", "/%ff/locks/verify"])
def test_an_address_without_a_repository(alice: Client, path: str) -> None:
    """Its error says so; on `locks/verify` a 404 would end git-lfs' checks of locks for good (client-8)."""
    origin = alice.base_url.removesuffix("/demo/assets")
    answer = alice.send("POST", origin + path, headers=alice.headers(body=True), content=b"{}")
    assert answer.status_code == (403 if path.endswith("/locks/verify") else 404)
    assert ("lacks the repository" in answer.json()["message"]) != path.startswith("/%ff")


@pytest.mark.parametrize(
    ("method", "path", "allowed"),
    [
        ("GET", "/objects/batch", {"POST"}),
        ("PUT", "/objects/batch", {"POST"}),
        ("DELETE", "/objects/batch", {"POST"}),
        ("PUT", "/locks", {"GET", "POST"}),
        ("DELETE", "/locks", {"GET", "POST"}),
        ("GET", "/locks/verify", {"POST"}),
        ("GET", "/locks/1/unlock", {"POST"}),
        ("DELETE", "/locks/1/unlock", {"POST"}),
        ("PATCH", "/locks/1/unlock", {"POST"}),
    ],
)
def test_unknown_methods_are_405_with_an_error_body(
    alice: Client, dialect: Dialect, method: str, path: str, allowed: set[str]
) -> None:
    """A client parses every error, so unknown methods have an Error body too, and HTTP asks for the header Allow."""
    answer = alice.speaking(dialect).send(method, alice.base_url + path, headers=[("Accept", dialect.media_type)])
    assert answer.status_code == 405
    assert allowed <= {name.strip() for name in answer.headers["allow"].split(",")} <= allowed | {"HEAD"}


@pytest.mark.parametrize("offered", ["x", "a" * 64, "3f2c-1.X_y", "0"])
def test_a_request_id_that_the_client_offers_is_kept(alice: Client, stack: Stack, offered: str) -> None:
    """A request id ties a client's error to a log line, so the id that a proxy has made is kept (trap-34)."""
    headers = [*alice.headers(body=False), ("X-Request-Id", offered)]
    answer = alice.send("GET", f"{stack.origin}/no/such/locks", headers=headers)
    assert answer.status_code == 403
    assert answer.json()["request_id"] == answer.headers["x-request-id"] == offered


@pytest.mark.parametrize("offered", ["", "a" * 65, "with space", "semi;colon", '"quoted"', "\xe9", "{}", "a,b"])
def test_a_request_id_that_is_no_plain_word_is_replaced(alice: Client, offered: str) -> None:
    """A request id that is no plain word is replaced, so that nobody can forge log lines with it (trap-34)."""
    headers = [*alice.headers(body=False), ("X-Request-Id", offered)]
    answer = alice.send("GET", f"{alice.base_url}/locks", headers=headers)
    assert answer.status_code == 200
    assert answer.headers["x-request-id"] != offered


def services_that_log(stack: Stack, request_id: str) -> set[str]:
    """Return the services whose log has a line with the request id."""
    lines = [line for line in stack.log().splitlines() if request_id in line]
    return {json.loads(line)["service"] for line in lines if line.startswith("{")}


async def logged_by(stack: Stack, request_id: str, services: set[str]) -> None:
    """Wait for the lines, because the facade writes its own after the answer."""
    await until(lambda: services_that_log(stack, request_id) >= services, f"{services} log {request_id}")


async def test_the_request_id_is_in_the_log_of_every_service_passed(alice: Client, stack: Stack) -> None:
    """An operator finds a client's error only if every service that the request passed logs its id (trap-34)."""
    # What may be written for a ref that nobody has named is not remembered, and locks is asked.
    batch = alice.batch("upload", new_blob().entry, ref={"name": f"refs/heads/{new_blob().oid}"})
    await logged_by(stack, batch.headers["x-request-id"], {"facade", "locks", "storage"})
    lock = alice.unlock("0")
    await logged_by(stack, lock.json()["request_id"], {"facade", "locks"})
    blob = new_blob()
    put = alice.put(alice.action("upload", blob), blob.content)
    await logged_by(stack, put.headers["x-request-id"], {"facade", "storage"})


def test_answers_to_actions_carry_the_request_id_too(alice: Client) -> None:
    """A transfer that succeeds has no Error body, so the request id is in a response header."""
    blob = new_blob()
    actions = alice.entry("upload", blob)["actions"]
    put, verified = alice.put(actions["upload"], blob.content), alice.verify(actions["verify"], blob.entry)
    got = alice.get(alice.action("download", blob))
    assert len({answer.headers["x-request-id"] for answer in (put, verified, got)}) == 3


@pytest.mark.parametrize(
    "request_head",
    [
        b"nonsense\r\n\r\n",
        b"GET / HTTP/9.9\r\n\r\n",
        b"GET /\xff\xfe HTTP/1.1\r\nHost: x\r\n\r\n",
        b"POST /a/locks HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n",
        b"POST /a/locks HTTP/1.1\r\nHost: x\r\nContent-Length: x\r\n\r\n",
        b"POST /a/locks HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n",
        b"GET /a/locks HTTP/1.1\r\nHost: x\r\nX: " + b"x" * 200000 + b"\r\n\r\n",
        b"GET /" + b"x" * 200000 + b" HTTP/1.1\r\nHost: x\r\n\r\n",
    ],
    ids=range(8),
)
def test_what_is_no_http_is_400_with_a_message(stack: Stack, alice: Client, request_head: bytes) -> None:
    """Even a request that is no HTTP gets an Error body, never 500, and ends no process (trap-27)."""
    with raw.Connection(stack.origin) as connection:
        connection.send(request_head)
        answer = connection.answer()
    assert answer.status_code in (400, 401, 404, 431)
    assert answer.headers["content-type"] == GENERIC.media_type
    assert answer.json()["message"]
    assert alice.locks().status_code == 200


def test_a_host_that_is_none_gives_no_href(alice: Client, stack: Stack) -> None:
    """A malformed Host must not become part of an href, where it could lead a client elsewhere (trap-33)."""
    body = json.dumps({"operation": "upload", "objects": [new_blob().entry]}).encode()
    with raw.Connection(stack.origin) as connection:
        head = 'POST /demo/assets/objects/batch HTTP/1.1\r\nHost: evil/../"x\r\n'
        head += "".join(f"{name}: {value}\r\n" for name, value in alice.headers(body=True))
        connection.send(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
        answer = connection.answer()
    assert answer.status_code == 400
    assert "evil" not in answer.text
