"""One attempt to deliver a message: to which address it goes, and what ends it."""

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from services.locks.webhooks.sender import Message, Outcome, Sender
from tests.support.certificates import write_certificate
from tests.support.receiver import Receiver, answer, running_receiver
from tests.support.waiting import STEP_SECONDS

_SECRET = "whsec_" + 43 * "A" + "="
_NAME = "hooks.example"


@pytest.fixture
async def sender() -> AsyncIterator[Sender]:
    """A sender that waits for an answer as long as this machine may take."""
    sender = Sender(answer_seconds=STEP_SECONDS, max_concurrency=2)
    yield sender
    sender.close()


@pytest.fixture
async def receiver() -> AsyncIterator[Receiver]:
    """A receiver that accepts everything."""
    async with running_receiver() as running:
        yield running


@pytest.fixture
def lookups(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names that were looked up; that of the receiver leads to this host the first time only."""
    names: list[str] = []

    # A name server that changes its mind: no real one on this host can be told to.
    def look_up(host: str, port: int | None, **_options: int) -> object:
        names.append(host)
        address = "127.0.0.1" if names.count(host) == 1 else "169.254.169.254"
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port))]

    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    return names


def _message(url: str, *, allows_private: bool = True) -> Message:
    return Message(id="msg_1", body="{}", url=url, secret=_SECRET, allows_private=allows_private)


def _tls(folder: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> ssl.SSLContext:
    files = write_certificate(folder, name)
    monkeypatch.setenv("SSL_CERT_FILE", str(files.authority))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(files.chain, files.key)
    return context


async def test_the_address_that_was_checked_is_the_one_that_is_called(
    sender: Sender, receiver: Receiver, lookups: list[str]
) -> None:
    """A name is looked up once for an attempt, so that a second answer of its name server leads nowhere."""
    url = f"http://{_NAME}:{receiver.port}/hook"
    assert await sender.send(_message(url)) == Outcome(204, "")
    assert receiver.requests[0].headers["host"] == f"{_NAME}:{receiver.port}"
    assert lookups == [_NAME]
    outcome = await sender.send(_message(url))
    assert outcome.status is None
    assert "169.254.169.254" in outcome.problem
    assert len(receiver.requests) == 1


async def test_the_certificate_is_that_of_the_name(
    sender: Sender, lookups: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """TLS asks for the name in the URL although the request goes to an address."""
    async with running_receiver(tls=_tls(tmp_path, _NAME, monkeypatch)) as receiver:
        assert await sender.send(_message(f"https://{_NAME}:{receiver.port}/")) == Outcome(204, "")
        assert lookups == [_NAME]


async def test_another_certificate_is_refused(
    sender: Sender, lookups: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A certificate of the address, or of another name, is none of the receiver."""
    async with running_receiver(tls=_tls(tmp_path, "127.0.0.1", monkeypatch)) as receiver:
        outcome = await sender.send(_message(f"https://{_NAME}:{receiver.port}/"))
    assert outcome.status is None
    assert "certificate" in outcome.problem
    assert receiver.requests == []
    assert lookups == [_NAME]


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
async def test_redirects_are_not_followed(sender: Sender, receiver: Receiver, status: int) -> None:
    """A redirect could lead anywhere, and is a failure."""
    async with running_receiver() as other:
        receiver.otherwise = answer(status, f"Location: {other.url}")
        outcome = await sender.send(_message(receiver.url))
    assert outcome == Outcome(status, f"the receiver answered {status}, and redirects are not followed")
    assert (len(receiver.requests), other.requests) == (1, [])


async def test_a_redirect_to_no_url(sender: Sender, receiver: Receiver) -> None:
    """It is a failure as others are."""
    receiver.otherwise = answer(302, "Location: https://xn--/")
    outcome = await sender.send(_message(receiver.url))
    assert outcome.problem.startswith("InvalidURL: expected a URL")


async def test_a_body_is_not_waited_for(sender: Sender, receiver: Receiver) -> None:
    """The status decides, even where the body is huge and never ends."""
    receiver.ends = False
    receiver.otherwise = b"HTTP/1.1 200 OK\r\nContent-Length: 1000000000000\r\n\r\n" + 100_000 * b"x"
    assert await sender.send(_message(receiver.url)) == Outcome(200, "")


@pytest.mark.parametrize(
    ("sent", "told"),
    [
        (b"", "RemoteProtocolError"),
        (b"SSH-2.0-OpenSSH_10.0\r\n", "RemoteProtocolError"),
        (b"HTTP/1.1 200 OK\r\nA: " + 300_000 * b"a", "RemoteProtocolError"),
    ],
)
async def test_what_is_no_answer_is_a_failure(sender: Sender, receiver: Receiver, sent: bytes, told: str) -> None:
    """A head is bounded, and what is not HTTP is told as such."""
    receiver.otherwise = sent
    outcome = await sender.send(_message(receiver.url))
    assert outcome.status is None
    assert told in outcome.problem
    assert len(outcome.problem) <= 200


@pytest.mark.parametrize("sent", [b"", b"HTTP/1.1 200 OK\r\n", 3 * b"HTTP/1.1 100 Continue\r\n\r\n"])
async def test_an_answer_has_a_deadline(receiver: Receiver, sent: bytes) -> None:
    """A receiver that says nothing, half of a head, or that it will go on, is not waited for."""
    receiver.ends, receiver.otherwise = False, sent
    sender = Sender(answer_seconds=0.5, max_concurrency=2)
    assert await sender.send(_message(receiver.url)) == Outcome(None, "no answer within 0.5 s")
    sender.close()


async def test_a_port_that_nobody_listens_at(sender: Sender, receiver: Receiver) -> None:
    """A connection that is refused is a failure like others."""
    server = await asyncio.start_server(receiver.handle, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    server.close()
    await server.wait_closed()
    outcome = await sender.send(_message(f"http://127.0.0.1:{port}/"))
    assert outcome.status is None
    assert outcome.problem.startswith("ConnectError: ")


async def test_the_proxies_of_the_environment_are_not_used(
    sender: Sender, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A proxy resolves names by itself, and would reach what is refused here."""
    async with running_receiver() as proxy:
        for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY"):
            monkeypatch.setenv(name, f"http://127.0.0.1:{proxy.port}")
        assert await sender.send(_message(receiver.url)) == Outcome(204, "")
        assert proxy.requests == []


async def test_a_private_address_is_not_called(sender: Sender, receiver: Receiver) -> None:
    """A hook that does not allow it sends nothing, whatever its row says."""
    for url in (receiver.url, receiver.url.replace("http", "https", 1)):
        outcome = await sender.send(_message(url, allows_private=False))
        assert outcome.status is None
        assert outcome.problem
    assert receiver.requests == []
