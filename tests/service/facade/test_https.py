"""HTTPS by the facade itself."""

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, suppress
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from services.facade.server import certificate, handshake
from tests.service.facade import raw
from tests.service.facade.conftest import Inner, new_place
from tests.support import streams
from tests.support.certificates import CertificateFiles, write_certificate
from tests.support.facade import RunningFacade
from tests.support.http import Client, content
from tests.support.waiting import LONG_SECONDS, STEP_SECONDS, until


@pytest.fixture
def files(tmp_path: Path) -> CertificateFiles:
    """A certificate for the facade."""
    return write_certificate(tmp_path / "tls")


@pytest.fixture
async def secure(
    inner: Inner, files: CertificateFiles, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[RunningFacade]:
    """A facade that serves HTTPS, and looks after its files all the time."""
    monkeypatch.setattr(certificate, "CHECK_SECONDS", 0.05)
    async with inner.running_facade(**files.settings) as running:
        yield running


def _trusting(files: CertificateFiles) -> ssl.SSLContext:
    return ssl.create_default_context(cafile=str(files.authority))


async def _serial(facade: RunningFacade, files: CertificateFiles, name: str | None = "localhost") -> str:
    """Return the serial number of the certificate that a new connection is shown; None: without naming a host."""

    def shake() -> str:
        context = _trusting(files)
        context.check_hostname = name is not None
        with (
            socket.create_connection(facade.address, timeout=STEP_SECONDS) as raw,
            context.wrap_socket(raw, server_hostname=name) as wrapped,
        ):
            told = wrapped.getpeercert()
            assert told is not None
            return str(told["serialNumber"])

    return await asyncio.to_thread(shake)


async def test_everything_works_over_https(secure: RunningFacade, inner: Inner, files: CertificateFiles) -> None:
    """The hrefs are https by themselves, and what is sent comes back."""
    place = await new_place(secure, inner)
    data = content("over https", 3_000_000)
    async with Client(place.base_url, "alice", inner.tokens["alice"], verify=_trusting(files)) as alice:
        assert (await alice.upload(data)).status_code == 200
        action = await alice.offered("download", data)
        assert action.href.startswith(f"{secure.origin}/{place.name}/")
        assert (await alice.http.get(action.href, headers=action.header)).content == data


@pytest.mark.parametrize(
    ("version", "accepted"),
    [(ssl.TLSVersion.TLSv1_1, False), (ssl.TLSVersion.TLSv1_2, True), (ssl.TLSVersion.TLSv1_3, True)],
)
@pytest.mark.filterwarnings("ignore:ssl.TLSVersion.TLSv1_1 is deprecated:DeprecationWarning")
async def test_old_versions_of_tls_are_refused(
    secure: RunningFacade, files: CertificateFiles, version: ssl.TLSVersion, *, accepted: bool
) -> None:
    """TLS 1.2 is the least."""
    context = _trusting(files)
    context.set_ciphers("ALL:@SECLEVEL=0")
    context.minimum_version = context.maximum_version = version
    connecting = asyncio.open_connection(*secure.address, ssl=context, server_hostname="localhost")
    if not accepted:
        with pytest.raises((ssl.SSLError, ConnectionError)):
            await connecting
        return
    _, writer = await connecting
    assert writer.get_extra_info("ssl_object").version() == f"TLSv1.{version.value - 0x301}"
    writer.close()
    await writer.wait_closed()


async def test_a_renewed_certificate_is_served_without_a_restart(
    secure: RunningFacade, files: CertificateFiles
) -> None:
    """While a broken pair stands there, the one before it is served."""
    first = await _serial(secure, files)
    assert await _serial(secure, files, None) == first
    good = files.chain.read_bytes()
    with capture_logs() as logs:
        files.chain.write_bytes(good[: len(good) // 2])
        await until(lambda: "the renewed certificate cannot be used" in [line["event"] for line in logs])
    assert await _serial(secure, files) == first
    write_certificate(files.chain.parent)

    async def is_renewed() -> bool:
        return await _serial(secure, files) != first

    await until(is_renewed)
    assert await _serial(secure, files, None) == await _serial(secure, files)


async def test_plain_http_is_not_served_on_that_port(secure: RunningFacade) -> None:
    """A plain HTTP request to the HTTPS port is not served and does no harm, so that no client skips TLS."""
    reader, writer = await asyncio.open_connection(*secure.address)
    writer.write(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
    async with asyncio.timeout(STEP_SECONDS):
        assert b"200" not in await reader.read()
    writer.close()
    await writer.wait_closed()


async def test_connections_count_before_their_handshake(inner: Inner, files: CertificateFiles) -> None:
    """However many sockets come that speak no TLS, few are open, and whoever does is served and keeps its place."""
    async with inner.running_facade(connections_per_address=8, **files.settings) as facade, AsyncExitStack() as stack:

        async def served() -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
            client = await asyncio.open_connection(*facade.address, ssl=_trusting(files), server_hostname="localhost")
            stack.push_async_callback(streams.end, [client[1]])
            return client

        clients = [await served()]
        await raw.ask(*clients[0])
        many = [(await stack.enter_async_context(raw.connected(facade)))[0] for _ in range(30)]
        clients.append(await served())
        for client in clients:
            await raw.ask(*client)
        await until(lambda: sum(each.at_eof() or each.exception() is not None for each in many) == len(many) - (8 - 2))


async def test_a_handshake_is_bounded(secure: RunningFacade, monkeypatch: pytest.MonkeyPatch) -> None:
    """A client that begins none, or only a part of one, holds no place for long."""
    monkeypatch.setattr(handshake, "HANDSHAKE_SECONDS", 0.3)
    for sent in (b"", b"\x16\x03\x01"):
        async with raw.connected(secure) as (reader, writer), asyncio.timeout(STEP_SECONDS):
            writer.write(sent)
            with suppress(ConnectionError):
                assert await reader.read() == b""


async def test_a_stop_waits_for_no_handshake(inner: Inner, files: CertificateFiles) -> None:
    """A connection that has begun none is no request that runs."""
    async with inner.running_facade(drain_seconds=LONG_SECONDS, **files.settings) as facade, raw.connected(facade):
        facade.stop.set()
        await asyncio.wait_for(facade.served, STEP_SECONDS)
