"""Mutual TLS between services, with certificates made here."""

from pathlib import Path
from typing import Any

import grpc
import pytest
import trustme
from grpc_health.v1 import health_pb2, health_pb2_grpc

from services.common.errors import Unauthenticated, Unavailable
from services.common.rpc.client import Health
from services.common.rpc.server import Server
from tests.support.certificates import certificate
from tests.support.replica import SERVICE, calling, serving
from tests.support.waiting import STEP_SECONDS


async def test_those_with_a_certificate_of_the_authority_and_the_secret_are_answered(tmp_path: Path) -> None:
    """A call over TLS, with certificates on both ends; health too."""
    authority = trustme.CA()
    tls = certificate(tmp_path, "localhost", authority=authority)
    async with serving("localhost:0", tls=tls) as (_, server):
        async with calling(f"localhost:{server.port}", tls=tls) as caller:
            assert await caller.ask() == "only"
            assert await caller.peer.health(SERVICE) is Health.SERVING
        async with calling(f"localhost:{server.port}", tls=tls, secret=None) as caller:
            with pytest.raises(Unauthenticated):
                await caller.ask()


async def test_a_stranger_gets_nothing(tmp_path: Path) -> None:
    """Without TLS, without a certificate, or with one of another authority, not even health answers."""
    authority = trustme.CA()
    tls = certificate(tmp_path, "localhost", authority=authority)
    other = trustme.CA()
    stranger = other.issue_cert("localhost")
    authority_pem = authority.cert_pem.bytes()
    async with serving("localhost:0", tls=tls) as (_, server):
        target = f"localhost:{server.port}"
        for channel in (
            grpc.aio.insecure_channel(target),
            grpc.aio.secure_channel(target, grpc.ssl_channel_credentials(authority_pem)),
            grpc.aio.secure_channel(
                target,
                grpc.ssl_channel_credentials(
                    authority_pem, stranger.private_key_pem.bytes(), stranger.cert_chain_pems[0].bytes()
                ),
            ),
        ):
            async with channel:
                stub: Any = health_pb2_grpc.HealthStub(channel)  # its types do not tell its methods
                with pytest.raises(grpc.aio.AioRpcError) as caught:
                    await stub.Check(health_pb2.HealthCheckRequest(), timeout=STEP_SECONDS)
                assert caught.value.code() is grpc.StatusCode.UNAVAILABLE


async def test_a_server_of_another_name_is_not_called(tmp_path: Path) -> None:
    """Whoever has a certificate of the authority for one name cannot stand in for another."""
    authority = trustme.CA()
    tls = certificate(tmp_path, "elsewhere", authority=authority)
    async with serving("localhost:0", tls=tls) as (replica, server):
        async with calling(f"localhost:{server.port}", tls=tls, deadline=1) as caller:
            with pytest.raises(Unavailable):
                await caller.ask()
        assert replica.calls == 0


async def test_certificates_do_not_take_the_place_of_the_secret(tmp_path: Path) -> None:
    """Every site has machines with certificates that have no business here."""
    tls = certificate(tmp_path, "localhost", authority=trustme.CA())
    with pytest.raises(ValueError, match="service_secret: needed"):
        Server("localhost:0", secret=None, drain_seconds=1, services=[SERVICE], tls=tls)


async def test_a_unix_socket_speaks_no_tls(tmp_path: Path) -> None:
    """The file system says who may connect to it."""
    tls = certificate(tmp_path, "localhost", authority=trustme.CA())
    address = f"unix:{tmp_path}/s.sock"
    async with serving(address, tls=tls), calling(address, tls=tls) as caller, calling(address) as plain:
        assert await caller.ask() == await plain.ask() == "only"


async def test_a_stranger_who_sends_nothing_is_refused_too() -> None:
    """A stream is refused before its first message, which a stranger might never send."""
    async with serving("127.0.0.1:0") as (_, server), calling(f"127.0.0.1:{server.port}", secret=None) as caller:
        call = caller.storage.WriteObject(timeout=STEP_SECONDS)
        assert await call.code() is grpc.StatusCode.UNAUTHENTICATED
