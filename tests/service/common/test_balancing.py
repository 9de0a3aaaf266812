"""Calls over TCP: spread over replicas, and through what happens to networks and processes."""

import asyncio
from collections.abc import Awaitable, Callable

import grpc
import pytest
from towpath.storage.v1 import storage_service_pb2 as storage_pb

from services.common.errors import Unavailable
from services.common.rpc import options
from tests.support.black_hole import black_hole
from tests.support.name_server import name_server
from tests.support.replica import REPEATABLE, Caller, calling, serving
from tests.support.waiting import STEP_SECONDS, until

Outage = Callable[[Caller], Awaitable[None]]


@pytest.fixture
def quick_keepalive(monkeypatch: pytest.MonkeyPatch) -> None:
    """Channels that notice a dead connection after a fifth of the usual time."""
    quick = [
        (name, value // 5 if "keepalive_time" in name or "ping_timeout" in name else value)
        for name, value in options._REMOTE_CHANNEL
    ]
    assert quick != options._REMOTE_CHANNEL
    monkeypatch.setattr(options, "_REMOTE_CHANNEL", quick)


@pytest.fixture(params=["noticed", pytest.param("for 8 seconds", marks=pytest.mark.drill)])
def outage(request: pytest.FixtureRequest) -> Outage:
    """A wait until a dead connection is noticed; as a drill, for as long as the network of an operator may be cut."""
    if request.param == "noticed":
        request.getfixturevalue("quick_keepalive")
        return _noticed

    async def lasts(_caller: Caller) -> None:
        # A dead connection is noticed after 7.
        await asyncio.sleep(8)

    return lasts


async def _noticed(caller: Caller) -> None:
    await until(lambda: caller.peer.channel.get_state() is not grpc.ChannelConnectivity.READY, "it is noticed")


async def test_all_replicas_of_a_name_are_called() -> None:
    """Two servers behind one target get half of the calls each."""
    async with (
        serving("127.0.0.1:0", name="a") as (a, first),
        serving("127.0.0.1:0", name="b") as (b, second),
        calling(f"ipv4:127.0.0.1:{first.port},127.0.0.1:{second.port}") as caller,
    ):
        await caller.ask_until("a", "b")
        before = a.calls, b.calls
        for _ in range(10):
            await caller.ask()
        assert (a.calls - before[0], b.calls - before[1]) == (5, 5)


async def test_another_replica_takes_the_calls_of_one_that_stops() -> None:
    """Every call while a replica drains and ends is answered, by the other."""
    async with serving("127.0.0.1:0", name="a") as (_, first), serving("127.0.0.1:0", name="b") as (_, second):
        target = f"ipv4:127.0.0.1:{first.port},127.0.0.1:{second.port}"
        async with calling(target, repeatable=REPEATABLE) as caller:
            await caller.ask_until("a", "b")
            stopping = asyncio.create_task(first.grpc.stop(1))
            answers = await asyncio.gather(*(caller.ask() for _ in range(50)))
            await stopping
            answers += await asyncio.gather(*(caller.ask() for _ in range(50)))
    assert set(answers[50:]) == {"b"}


async def test_a_replica_that_comes_later_is_found() -> None:
    """A name with one address more is called there too, and one with an address less is not: nobody restarts."""
    async with (
        name_server() as (names, names_port),
        serving("127.0.0.1:0", name="a", connection_seconds=0.5) as (_, first),
        serving(f"127.0.0.2:{first.port}", name="b", connection_seconds=0.5) as _,
    ):
        names.addresses = ["127.0.0.1"]
        async with calling(f"dns://127.0.0.1:{names_port}/replicas.test:{first.port}") as caller:
            assert set(await caller.ask_until("a")) == {"a"}
            names.addresses = ["127.0.0.1", "127.0.0.2"]
            await caller.ask_until("b")
            names.addresses = ["127.0.0.2"]
            async with asyncio.timeout(STEP_SECONDS):
                while {await caller.ask() for _ in range(4)} != {"b"}:
                    pass


async def test_a_stream_outlives_its_connections_age() -> None:
    """A connection that has had its time takes no new calls, but what runs on it runs to its end."""
    async with (
        serving("127.0.0.1:0", connection_seconds=0.2) as (replica, server),
        calling(f"127.0.0.1:{server.port}") as caller,
    ):
        stream = caller.storage.ReadObject(storage_pb.ReadObjectRequest(), metadata=caller.peer.metadata())
        received = [(await anext(aiter(stream))).data]
        async with asyncio.timeout(STEP_SECONDS):
            while len(replica.connections) < 4:
                await caller.ask()
        replica.end_streams.set()
        received += [message.data async for message in stream]
    assert received == [b"1", b"2"]


async def test_a_network_that_is_cut_for_8_seconds_is_not_seen(outage: Outage) -> None:
    """A call that went into a black hole is made again once the network is back, within its deadline of 12 s."""
    async with (
        serving("127.0.0.1:0") as (_, server),
        black_hole(server.port) as (hole, address),
        calling(address, repeatable=REPEATABLE) as caller,
    ):
        await caller.ask()
        hole.cut()
        call = asyncio.create_task(caller.ask())
        await outage(caller)
        hole.mend()
        assert await call == "only"


@pytest.mark.parametrize("repeatable", [True, False])
async def test_only_what_is_repeatable_is_made_again(outage: Outage, *, repeatable: bool) -> None:
    """A call that took effect, and whose answer was lost, is repeated where that does no harm, else it fails."""
    async with (
        serving("127.0.0.1:0") as (replica, server),
        black_hole(server.port) as (hole, address),
        calling(address, repeatable=REPEATABLE if repeatable else None) as caller,
    ):
        await caller.ask()
        hole.cut(answers_only=True)
        call = asyncio.create_task(caller.ask())
        await until(lambda: replica.calls == 2, "the call takes effect")
        await outage(caller)
        hole.mend()
        if repeatable:
            assert await call == "only"
        else:
            with pytest.raises(Unavailable):
                await call
        assert replica.calls == (3 if repeatable else 2)


@pytest.mark.usefixtures("quick_keepalive")
async def test_a_connection_that_died_unused_is_noticed() -> None:
    """A service that goes on after hours of silence does not begin with a call into nowhere."""
    async with (
        serving("127.0.0.1:0") as (_, server),
        black_hole(server.port) as (hole, address),
        calling(address) as caller,
    ):
        await caller.ask()
        hole.cut()
        await _noticed(caller)
