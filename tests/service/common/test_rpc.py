"""Errors, request ids, the secret, health and reflection over a real gRPC connection."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import grpc
import pytest
from google.protobuf.timestamp_pb2 import Timestamp
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc
from pydantic import SecretStr
from towpath.locks.v1 import lock_service_pb2 as pb
from towpath.locks.v1 import lock_service_pb2_grpc as pb_grpc

from services.common.errors import (
    AlreadyExists,
    DeadlineExceeded,
    PermissionDenied,
    Reason,
    ServiceError,
    Unauthenticated,
    Unavailable,
    Unimplemented,
)
from services.common.observability import request_id
from services.common.rpc import interceptors
from services.common.rpc.client import Health, ServiceClient
from services.common.rpc.interceptors import Context, FurtherSecret
from services.common.rpc.options import ADMIN_METADATA_KEY, MAX_STREAMS
from services.common.rpc.server import Server
from tests.support.loop import never
from tests.support.waiting import STEP_SECONDS

SERVICE = pb.DESCRIPTOR.services_by_name["LockService"].full_name
SECRET = SecretStr("between-services")
_numbers = itertools.count()
# The types ask for every method; these tests call a few.
_Servicer: Any = pb_grpc.LockServiceServicer


class Locks(_Servicer):  # type: ignore[misc] # see above
    """A lock service whose every call does what a test wants to see of the connection."""

    def __init__(self) -> None:
        self.request_ids: list[str] = []

    async def CreateLock(self, request: pb.CreateLockRequest, context: Context) -> pb.CreateLockResponse:
        """Refuse with the standing lock."""
        self.request_ids.append(request_id.current())
        standing = pb.Lock(id="7", path=request.path, owner_name="alice", locked_at=Timestamp(seconds=1))
        raise AlreadyExists(Reason.PATH_LOCKED, "the path is locked", detail=standing, holder="alice")

    async def ListLocks(self, request: pb.ListLocksRequest, context: Context) -> pb.ListLocksResponse:
        """Break."""
        raise RuntimeError("the inside of the service")

    async def VerifyLocks(self, request: pb.VerifyLocksRequest, context: Context) -> pb.VerifyLocksResponse:
        """Answer."""
        return pb.VerifyLocksResponse(next_cursor="3")

    async def DeleteLock(self, request: pb.DeleteLockRequest, context: Context) -> pb.DeleteLockResponse:
        """Abort by gRPC's own means."""
        await context.abort(grpc.StatusCode.UNIMPLEMENTED, "not here")
        raise AssertionError


@asynccontextmanager
async def running(
    folder: Path,
    *,
    secret: SecretStr | None = None,
    accepted: SecretStr | None = None,
    shown: SecretStr | None = None,
    admin_secret: SecretStr | None = None,
    admin_shown: SecretStr | None = None,
    locks: Locks | None = None,
    deadline: float = 5,
    repeatable: dict[str, list[str]] | None = None,
    socket: str | None = None,
) -> AsyncIterator[tuple[Server, Locks, ServiceClient, pb_grpc.LockServiceAsyncStub]]:
    """Run the service on a unix socket, and a peer that calls it.

    The socket is a new one unless it is named, because gRPC shares connections by address, also to a server that ended.
    With any of the secrets of administration, VerifyLocks is a method of it.
    """
    locks = locks or Locks()
    address = f"unix:{folder / (socket or f'{next(_numbers)}.sock')}"
    server = Server(
        address,
        secret=secret,
        accepted=accepted,
        drain_seconds=1,
        services=[SERVICE],
        further=FurtherSecret(
            "the administration", ADMIN_METADATA_KEY, frozenset({f"/{SERVICE}/VerifyLocks"}), [None, admin_secret]
        )
        if admin_secret or admin_shown
        else None,
    )
    pb_grpc.add_LockServiceServicer_to_server(locks, server.grpc)
    await server.start()
    further = (ADMIN_METADATA_KEY, admin_shown) if admin_shown else None
    peer = ServiceClient(address, deadline=deadline, secret=shown, further=further, repeatable=repeatable)
    try:
        yield server, locks, peer, pb_grpc.LockServiceStub(peer.channel)
    finally:
        await peer.close()
        await server.grpc.stop(0)


async def test_an_error_arrives_whole(tmp_path: Path) -> None:
    """Status, reason, message, metadata and detail are the same on both sides."""
    async with running(tmp_path) as (_, _, peer, stub):
        standing = pb.Lock()
        with pytest.raises(AlreadyExists) as caught:
            await peer.call(stub.CreateLock, pb.CreateLockRequest(path="a b"), detail=standing)
    assert caught.value.reason == Reason.PATH_LOCKED
    assert caught.value.message == "the path is locked"
    assert caught.value.metadata == {"holder": "alice"}
    assert caught.value.detail is standing
    assert (standing.id, standing.path, standing.owner_name) == ("7", "a b", "alice")


async def test_what_is_unforeseen_tells_nothing_of_the_inside(tmp_path: Path) -> None:
    """An exception is INTERNAL for the caller, without its text."""
    async with running(tmp_path) as (_, _, peer, stub):
        with pytest.raises(ServiceError) as caught:
            await peer.call(stub.ListLocks, pb.ListLocksRequest())
    assert type(caught.value) is ServiceError
    assert "inside" not in caught.value.message


async def test_an_abort_passes_through(tmp_path: Path) -> None:
    """A call aborted by gRPC's own means keeps its status."""
    async with running(tmp_path) as (_, _, peer, stub):
        with pytest.raises(Unimplemented):
            await peer.call(stub.DeleteLock, pb.DeleteLockRequest())


async def test_the_request_id_travels(tmp_path: Path) -> None:
    """The id of the caller's request is the current one in the service; a bad one is replaced."""
    async with running(tmp_path) as (_, locks, peer, stub):
        request_id.adopt("from-the-client.1")
        with pytest.raises(AlreadyExists):
            await peer.call(stub.CreateLock, pb.CreateLockRequest())
        with pytest.raises(grpc.aio.AioRpcError):
            await stub.CreateLock(pb.CreateLockRequest(), metadata=((request_id.METADATA_KEY, "two words"),))
    assert locks.request_ids[0] == "from-the-client.1"
    assert len(locks.request_ids[1]) == 32


async def test_without_the_secret_nothing_answers_but_health(tmp_path: Path) -> None:
    """A call with a wrong secret, or none, is UNAUTHENTICATED; health is open."""
    for shown in (None, SecretStr("wrong")):
        async with running(tmp_path, secret=SECRET, shown=shown) as (_, _, peer, stub):
            with pytest.raises(Unauthenticated):
                await peer.call(stub.VerifyLocks, pb.VerifyLocksRequest())
            assert await peer.health(SERVICE) is Health.NOT_SERVING
    async with running(tmp_path, secret=SECRET, shown=SECRET) as (_, _, peer, stub):
        assert (await peer.call(stub.VerifyLocks, pb.VerifyLocksRequest())).next_cursor == "3"


async def test_a_second_secret_is_accepted_while_the_secret_is_changed(tmp_path: Path) -> None:
    """Before, during and after: whoever restarts first, its neighbours of the step before and after are answered."""
    old, new = SecretStr("the old one"), SecretStr("the new one")
    steps = [(old, None), (old, new), (new, old), (new, None)]
    for before, after in itertools.pairwise(steps):
        for (secret, accepted), (shown, _) in [(before, after), (after, before)]:
            async with running(tmp_path, secret=secret, accepted=accepted, shown=shown) as (_, _, peer, stub):
                assert (await peer.call(stub.VerifyLocks, pb.VerifyLocksRequest())).next_cursor == "3"
    async with running(tmp_path, secret=new, shown=old) as (_, _, peer, stub):
        with pytest.raises(Unauthenticated):
            await peer.call(stub.VerifyLocks, pb.VerifyLocksRequest())


async def test_an_empty_second_secret_opens_nothing(tmp_path: Path) -> None:
    """An empty secret must not be accepted, because a caller that shows no secret would match it."""
    async with running(tmp_path, secret=SECRET, accepted=SecretStr("")) as (_, _, peer, stub):
        with pytest.raises(Unauthenticated):
            await peer.call(stub.VerifyLocks, pb.VerifyLocksRequest())


@pytest.mark.parametrize("secret", [SECRET, None])
async def test_administration_needs_a_secret_of_its_own(tmp_path: Path, secret: SecretStr | None) -> None:
    """The secret between services, which each facade has, opens no method of administration."""
    administration = SecretStr("what administration alone shows")
    for shown in (None, SECRET):
        running_for = running(tmp_path, secret=secret, shown=secret, admin_secret=administration, admin_shown=shown)
        async with running_for as (_, _, peer, stub):
            with pytest.raises(Unauthenticated, match="administration"):
                await peer.call(stub.VerifyLocks, pb.VerifyLocksRequest())
            with pytest.raises(AlreadyExists):
                await peer.call(stub.CreateLock, pb.CreateLockRequest())
    running_for = running(
        tmp_path, secret=secret, shown=secret, admin_secret=administration, admin_shown=administration
    )
    async with running_for as (_, _, peer, stub):
        assert (await peer.call(stub.VerifyLocks, pb.VerifyLocksRequest())).next_cursor == "3"


async def test_nobody_administrates_where_the_secret_for_it_is_not_set(tmp_path: Path) -> None:
    """If services show each other a secret, administration needs its own; without any, opening the socket is enough."""
    async with running(tmp_path, secret=SECRET, shown=SECRET, admin_shown=SECRET) as (_, _, peer, stub):
        with pytest.raises(Unauthenticated, match="administration"):
            await peer.call(stub.VerifyLocks, pb.VerifyLocksRequest())
    async with running(tmp_path) as (_, _, peer, stub):
        assert (await peer.call(stub.VerifyLocks, pb.VerifyLocksRequest())).next_cursor == "3"


async def test_an_address_that_others_reach_needs_the_secret() -> None:
    """A server on a port without a secret does not start."""
    with pytest.raises(ValueError, match="service_secret: needed"):
        Server("127.0.0.1:0", secret=None, drain_seconds=1, services=[SERVICE])


def _frame(kind: int, flags: int, stream: int, body: bytes) -> bytes:
    """Return a frame of HTTP/2."""
    return len(body).to_bytes(3) + bytes([kind, flags]) + stream.to_bytes(4) + body


def _call(path: bytes) -> bytes:
    """Return a connection's first bytes, and a call with an empty message whose answers nobody reads."""
    fields = {b":method": b"POST", b":scheme": b"http", b":path": path, b":authority": b"x", b"te": b"trailers"}
    fields[b"content-type"] = b"application/grpc"
    head = b"".join(b"\0" + bytes([len(name)]) + name + bytes([len(value)]) + value for name, value in fields.items())
    no_window = _frame(4, 0, 0, b"\0\x04" + bytes(4))
    return b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + no_window + _frame(1, 4, 1, head) + _frame(0, 1, 1, bytes(5))


async def test_a_server_that_ends_by_itself_ends_its_process(tmp_path: Path) -> None:
    """The path of a call that is not UTF-8 ends gRPC; a process that goes on would seem to be well for ever."""
    stop = asyncio.Event()
    async with running(tmp_path, secret=SECRET, socket="own") as (server, _, _, _):
        await server.set_serving(serving=True)
        serving = asyncio.create_task(server.serve_until(stop))
        _, writer = await asyncio.open_unix_connection(tmp_path / "own")
        writer.write(_call(b"/\xff/\xff"))
        with pytest.raises(RuntimeError, match="ended by itself"):
            await asyncio.wait_for(serving, STEP_SECONDS)
        assert not server.is_serving
        writer.close()


@pytest.mark.parametrize("path", [b"/grpc.health.v1.Health/Watch", b"none"])
async def test_a_caller_that_reads_nothing_holds_nothing(tmp_path: Path, path: bytes) -> None:
    """Health changes and the service stops whatever a stranger has asked for."""
    stop = asyncio.Event()
    async with running(tmp_path, secret=SECRET, socket="own") as (server, _, _, _):
        serving = asyncio.create_task(server.serve_until(stop))
        reader, writer = await asyncio.open_unix_connection(tmp_path / "own")
        writer.write(_call(path))
        await asyncio.wait_for(reader.read(1), STEP_SECONDS)
        await asyncio.wait_for(server.set_serving(serving=True), STEP_SECONDS)
        stop.set()
        await asyncio.wait_for(serving, STEP_SECONDS)
        writer.close()


async def test_a_connection_has_a_bound_of_calls(tmp_path: Path) -> None:
    """The server says it in its first frame, which lists settings by their numbers."""
    async with running(tmp_path, secret=SECRET, socket="own"):
        reader, writer = await asyncio.open_unix_connection(tmp_path / "own")
        writer.write(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + _frame(4, 0, 0, b""))
        async with asyncio.timeout(STEP_SECONDS):
            head = await reader.readexactly(9)
            body = await reader.readexactly(int.from_bytes(head[:3]))
        writer.close()
    assert head[3] == 4
    settings = {
        int.from_bytes(body[at : at + 2]): int.from_bytes(body[at + 2 : at + 6]) for at in range(0, len(body), 6)
    }
    assert settings[3] == MAX_STREAMS


@pytest.mark.parametrize("method", ["Check", "Watch"])
async def test_strangers_hold_few_calls(monkeypatch: pytest.MonkeyPatch, method: str) -> None:
    """Whoever may ask without a secret asks at once, and an address has some calls that do not."""
    monkeypatch.setattr(interceptors, "_MAX_OPEN_CALLS", 8)
    server = await Server("127.0.0.1:0", secret=SECRET, drain_seconds=1, services=[SERVICE]).start()
    peer = ServiceClient(f"127.0.0.1:{server.port}", deadline=STEP_SECONDS)
    try:
        silent: Any = peer.channel.stream_unary(f"/grpc.health.v1.Health/{method}")
        calls = [asyncio.ensure_future(silent(wait_for_ready=True).code()) for _ in range(9)]
        done, _ = await asyncio.wait(calls, timeout=STEP_SECONDS, return_when=asyncio.FIRST_COMPLETED)
        assert [call.result() for call in done] == [grpc.StatusCode.RESOURCE_EXHAUSTED]
        assert await peer.health("") is Health.NOT_ANSWERING
    finally:
        await peer.close()
        await server.grpc.stop(0)


async def test_strangers_send_their_message_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """A call without one ends, and makes room."""
    monkeypatch.setattr(interceptors, "_MAX_OPEN_CALLS", 1)
    monkeypatch.setattr(interceptors, "_MESSAGE_SECONDS", 0.1)
    server = await Server("127.0.0.1:0", secret=SECRET, drain_seconds=1, services=[SERVICE]).start()
    peer = ServiceClient(f"127.0.0.1:{server.port}", deadline=STEP_SECONDS)
    try:
        silent: Any = peer.channel.stream_unary("/grpc.health.v1.Health/Check")
        call = silent(wait_for_ready=True, timeout=STEP_SECONDS)
        assert await call.code() is grpc.StatusCode.DEADLINE_EXCEEDED
        assert await call.details() == "expected a message"
        assert await peer.health("") is Health.NOT_SERVING
    finally:
        await peer.close()
        await server.grpc.stop(0)


async def test_health_follows_the_service(tmp_path: Path) -> None:
    """NOT_SERVING until said otherwise, for the service by its name."""
    async with running(tmp_path) as (server, _, peer, _):
        assert await peer.health(SERVICE) is Health.NOT_SERVING
        await server.set_serving(serving=True)
        assert await peer.health(SERVICE) is Health.SERVING


async def test_reflection_names_the_service(tmp_path: Path) -> None:
    """A caller without the .proto files can ask what there is, if it may call: only health needs no secret."""
    async with running(tmp_path, secret=SECRET, shown=SECRET) as (_, _, peer, _):
        make_stub: Any = reflection_pb2_grpc.ServerReflectionStub  # its types know only blocking channels
        stub = make_stub(peer.channel)
        request = reflection_pb2.ServerReflectionRequest(list_services="")
        async for answer in stub.ServerReflectionInfo(iter([request]), metadata=peer.metadata()):
            names = [service.name for service in answer.list_services_response.service]
        with pytest.raises(grpc.aio.AioRpcError, match="UNAUTHENTICATED"):
            await stub.ServerReflectionInfo(iter([request]), timeout=STEP_SECONDS).read()
    assert SERVICE in names


async def test_a_peer_that_is_away_is_waited_for_until_the_deadline(tmp_path: Path) -> None:
    """A call to a service that never comes is Unavailable; one to a service that comes succeeds."""
    peer = ServiceClient(f"unix:{tmp_path / 'locks.sock'}", deadline=0.3)
    with pytest.raises(Unavailable):
        await peer.call(pb_grpc.LockServiceStub(peer.channel).VerifyLocks, pb.VerifyLocksRequest())
    await peer.close()


async def test_a_call_may_have_a_deadline_of_its_own(tmp_path: Path) -> None:
    """The service is told the deadline of the call where it has one, else that of the peer."""
    remaining: list[float | None] = []

    class Told(Locks):
        async def ListLocks(self, request: pb.ListLocksRequest, context: Context) -> pb.ListLocksResponse:
            """Keep how long the caller waits."""
            remaining.append(context.time_remaining())
            return pb.ListLocksResponse()

    async with running(tmp_path, locks=Told(), deadline=30) as (_, _, peer, stub):
        await peer.call(stub.ListLocks, pb.ListLocksRequest())
        await peer.call(stub.ListLocks, pb.ListLocksRequest(), deadline=600)
    peers, own = remaining
    assert peers is not None
    assert own is not None
    # On its way a deadline is rounded up, by less than a tenth.
    assert peers <= 33 < own


def test_every_status_has_one_error() -> None:
    """The subclasses of ServiceError have distinct statuses."""
    statuses = [kind.status for kind in ServiceError.__subclasses__()]
    assert len(set(statuses)) == len(statuses)
    assert {PermissionDenied.status, DeadlineExceeded.status} <= set(statuses)


async def test_what_a_service_has_waited_for_is_not_repeated(tmp_path: Path) -> None:
    """A service that says that it lacks something has waited for it: a repeat would only use up the caller's time."""

    class Waiting(Locks):
        async def ListLocks(self, request: pb.ListLocksRequest, context: Context) -> pb.ListLocksResponse:
            """Say that the database is away."""
            self.request_ids.append(request_id.current())
            raise Unavailable(Reason.UNAVAILABLE, "the database does not answer")

    async with running(tmp_path, locks=Waiting(), repeatable={SERVICE: ["ListLocks"]}) as (_, locks, peer, stub):
        with pytest.raises(Unavailable, match="the database does not answer"):
            await peer.call(stub.ListLocks, pb.ListLocksRequest())
    assert len(locks.request_ids) == 1


class _Hanging(Locks):
    """A service that is called, and never answers."""

    def __init__(self) -> None:
        super().__init__()
        self.reached = asyncio.Event()

    async def ListLocks(self, request: pb.ListLocksRequest, context: Context) -> pb.ListLocksResponse:
        """Hang."""
        self.request_ids.append(request_id.current())
        self.reached.set()
        await never()

    async def VerifyLocks(self, request: pb.VerifyLocksRequest, context: Context) -> pb.VerifyLocksResponse:
        """Hang."""
        self.reached.set()
        await never()


async def test_a_call_that_a_stop_cuts_off_is_repeated(tmp_path: Path) -> None:
    """A service that stops in the midst of a call does not wait for it for ever; the next process answers it."""
    held = _Hanging()
    repeatable = {SERVICE: ["VerifyLocks"]}
    async with running(tmp_path, locks=held, repeatable=repeatable, socket="same.sock") as (server, _, peer, stub):
        call = asyncio.create_task(peer.call(stub.VerifyLocks, pb.VerifyLocksRequest()))
        await held.reached.wait()
        await server.grpc.stop(0.1)
        async with running(tmp_path, socket="same.sock"):
            assert (await call).next_cursor == "3"


async def test_a_call_that_the_service_cancels_is_repeated(tmp_path: Path) -> None:
    """As a service does that is being stopped, with calls that have just come."""

    class Stopping(Locks):
        async def ListLocks(self, request: pb.ListLocksRequest, context: Context) -> pb.ListLocksResponse:
            """Cancel the first call."""
            self.request_ids.append(request_id.current())
            if len(self.request_ids) == 1:
                await context.abort(grpc.StatusCode.CANCELLED)
            return pb.ListLocksResponse(next_cursor="2")

    async with running(tmp_path, locks=Stopping(), repeatable={SERVICE: ["ListLocks"]}) as (_, locks, peer, stub):
        assert (await peer.call(stub.ListLocks, pb.ListLocksRequest())).next_cursor == "2"
    assert len(locks.request_ids) == 2


async def test_a_call_that_the_caller_cancels_is_not_repeated(tmp_path: Path) -> None:
    """Whoever waits for nothing asks for nothing."""
    locks = _Hanging()
    async with running(tmp_path, locks=locks, repeatable={SERVICE: ["ListLocks"]}) as (_, _, peer, stub):
        for _ in range(3):
            locks.reached.clear()
            call = asyncio.create_task(peer.call(stub.ListLocks, pb.ListLocksRequest()))
            await locks.reached.wait()
            call.cancel()
            with pytest.raises(asyncio.CancelledError):
                await call
        # Longer than the pause before a call is repeated, which is a tenth of a second.
        await asyncio.sleep(0.3)
    assert len(locks.request_ids) == 3


@pytest.mark.parametrize(("serving", "expected"), [(False, Unavailable), (True, DeadlineExceeded)])
async def test_a_service_that_does_not_serve_is_unavailable(
    tmp_path: Path, serving: bool, expected: type[ServiceError]
) -> None:
    """A call that ends at its deadline is an outage where the service says so of itself, else it was too slow."""
    async with running(tmp_path, locks=_Hanging(), deadline=0.5) as (server, _, peer, stub):
        await server.set_serving(serving=serving)
        with pytest.raises(expected):
            await peer.call(stub.ListLocks, pb.ListLocksRequest())
