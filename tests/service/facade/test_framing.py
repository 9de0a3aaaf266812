"""The end of a request: where it is in doubt, no byte of it is taken for another request (RFC 9112, section 6.3)."""

import json

import pytest

from tests.service.facade import raw
from tests.service.facade.conftest import Place
from tests.support.loop import settled

BATCH = b'{"operation":"download","objects":[]}'


def request(place: Place, path: str, body: bytes = b"", **headers: str) -> bytes:
    """Return a request of alice on a path of the repository; its headers come after the usual ones."""
    return raw.head(place.asked(path), "POST", Content_Length=str(len(body)), **headers) + body


@pytest.mark.parametrize("upgrade", ["h2c", "websocket", "TLS/1.0", "foo/2"])
@pytest.mark.parametrize("connection", ["Upgrade, HTTP2-Settings", "keep-alive, upgrade", "upgrade"])
async def test_a_request_with_upgrade_keeps_its_body(place: Place, upgrade: str, connection: str) -> None:
    """No other protocol is spoken, so it is an ordinary request (RFC 9110, section 7.8); the next one is as well."""
    headers = {"Connection": connection, "Upgrade": upgrade, "HTTP2-Settings": "AAMAAABkAAQAoAAAAAIAAAAA"}
    async with raw.connected(place.facade) as (reader, writer):
        for _ in range(2):
            writer.write(request(place, "objects/batch", BATCH, **headers))
            status, _, body = await raw.answer(reader)
            assert (status, json.loads(body)["objects"]) == (200, [])


@pytest.mark.parametrize("cut", [1, 40, 150, 250, 400])
async def test_upgrade_in_pieces(place: Place, cut: int) -> None:
    """The head and the body may come in any packets."""
    data = request(place, "objects/batch", BATCH, Connection="upgrade", Upgrade="h2c")
    async with raw.connected(place.facade) as (reader, writer):
        for part in (data[:cut], data[cut:-5], data[-5:]):
            writer.write(part)
            await writer.drain()
            await settled()
        status, _, body = await raw.answer(reader)
    assert (status, json.loads(body)["objects"]) == (200, [])


async def test_a_body_after_upgrade_is_no_request(place: Place) -> None:
    """A proxy that passes `Upgrade` on gives the connection to the next client: the body must not act in its name."""
    async with place.client() as alice:
        lock = (await alice.lock("precious.psd")).json()["lock"]
    smuggled = request(place, f"locks/{lock['id']}/unlock")
    upgrade = {"Connection": "upgrade", "Upgrade": "h2c", "Content-Length": str(len(smuggled))}
    attack = raw.head(place.asked("locks/verify", "bob"), "POST", **upgrade)
    async with raw.connected(place.facade) as (reader, writer):
        writer.write(attack)
        await writer.drain()
        await settled()
        writer.write(smuggled + raw.head(place.asked("locks"), "GET"))
        first, _, _ = await raw.answer(reader)
        second, _, body = await raw.answer(reader)
    assert first >= 400, "the body is what bob sent, and that is no JSON"
    assert second == 200
    assert [held["id"] for held in json.loads(body)["locks"]] == [lock["id"]]


async def test_connect_is_refused(place: Place) -> None:
    """A tunnel has no end that a client and this server agree on."""
    async with raw.connected(place.facade) as (reader, writer):
        writer.write(b"CONNECT localhost:80 HTTP/1.1\r\nHost: localhost\r\n\r\n")
        status, headers, _ = await raw.answer(reader)
        assert (status, headers["connection"]) == (501, "close")
        assert await reader.read() == b""


async def test_trailers_are_no_headers(place: Place) -> None:
    """Trailers after a body must not name the sender or the proxy of the request (RFC 9110, section 6.5.1)."""
    action = place.asked("objects/batch")
    shown = action.header.pop("Authorization")
    chunked = b"%x\r\n%b\r\n0\r\n" % (len(BATCH), BATCH)
    trailers = f"Authorization: {shown}\r\nX-Request-Id: forged\r\n\r\n".encode()
    async with raw.connected(place.facade) as (reader, writer):
        # The trailers come before anybody can have looked at the head.
        writer.write(raw.head(action, "POST", Transfer_Encoding="chunked") + chunked + trailers)
        status, _, body = await raw.answer(reader)
    assert status == 401
    assert json.loads(body)["request_id"] != "forged"


@pytest.mark.parametrize(
    ("lines", "status"),
    [
        ([], 400),
        (["Host: a", "Host: b"], 400),
        (["Host: a", "Transfer-Encoding: gzip, chunked"], 501),
        (["Host: a", "Transfer-Encoding: chunked", "Transfer-Encoding: chunked"], 400),
        (["Host: a", "Transfer-Encoding: identity"], 501),
        (["Host: a", "Transfer-Encoding: chunked", "Content-Length: 5"], 400),
        (["Host: a", "Content-Length: 5", "Content-Length: 6"], 400),
        (["Host: a", "Content-Length: +5"], 400),
        (["Host: a", "Content-Length : 5"], 400),
    ],
)
async def test_a_head_that_can_be_read_in_two_ways(place: Place, lines: list[str], status: int) -> None:
    """A proxy may have read it in the other one: it is refused, and what follows is not looked at."""
    data = "\r\n".join([f"POST /{place.name}/locks/verify HTTP/1.1", *lines, "", ""]).encode()
    async with raw.connected(place.facade) as (reader, writer):
        writer.write(data + b"GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n")
        answered, headers, body = await raw.answer(reader)
        assert (answered, headers["connection"]) == (status, "close")
        assert json.loads(body)["message"]
        assert await reader.read() == b""


async def test_without_host_in_an_older_version(place: Place) -> None:
    """HTTP/1.0 has none, as some health checks of balancers."""
    async with raw.connected(place.facade) as (reader, writer):
        writer.write(b"GET /healthz HTTP/1.0\r\n\r\n")
        assert (await raw.answer(reader))[0] == 200


async def test_what_follows_a_request_has_no_answer_before_it(place: Place) -> None:
    """Nonsense behind a request that is being served: its answer is the first and the last one."""
    async with raw.connected(place.facade) as (reader, writer):
        writer.write(request(place, "objects/batch", BATCH) + b"NONSENSE\r\n\r\n")
        status, _, body = await raw.answer(reader)
        assert (status, json.loads(body)["objects"]) == (200, [])
        rest = await reader.read()
    assert rest == b"" or rest.startswith(b"HTTP/1.1 400 ")
