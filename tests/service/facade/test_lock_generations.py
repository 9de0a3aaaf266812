"""Polls of the locks: those that come together share a call; the lock service answers as each test says."""

import asyncio
from collections.abc import AsyncIterator

import pytest
from towpath.locks.v1 import lock_service_pb2 as pb

from services.common.errors import Reason, Unavailable
from services.common.rpc.client import ServiceClient
from services.facade.clients.lock_generations import LockGenerations
from tests.service.facade.inner_failures import Scripted


class Inner:
    """The lock service with the generations of two repositories, and what it was asked."""

    def __init__(self, scripted: Scripted, polls: LockGenerations) -> None:
        self.scripted = scripted
        self.polls = polls
        self.generations = {1: 10, 2: 20}
        self.calls: list[pb.ListLocksRequest] = []
        scripted.answers["ListLocks"] = self._list

    async def _list(self, request: pb.ListLocksRequest) -> pb.ListLocksResponse:
        self.calls.append(request)
        return pb.ListLocksResponse(generation=self.generations[request.repository_id])


@pytest.fixture
async def inner(scripted_peer: tuple[Scripted, ServiceClient]) -> AsyncIterator[Inner]:
    """A lock service and its client."""
    scripted, peer = scripted_peer
    polls = LockGenerations(peer)
    yield Inner(scripted, polls)
    await polls.close()


async def test_polls_of_one_moment_share_a_call(inner: Inner) -> None:
    """There is one call for each repository, with the newest generation that a client knows."""
    wanted = [(repository, known) for known in (9, 10, 3) for repository in (1, 2)]
    found = await asyncio.gather(*(inner.polls.read(*each) for each in wanted))
    assert found == [inner.generations[repository] for repository, _ in wanted]
    asked = {call.repository_id: call.known_generation for call in inner.calls}
    assert asked == {1: 10, 2: 10}
    assert len(inner.calls) == 2


async def test_a_poll_sees_each_change_that_was_made_before_it(inner: Inner) -> None:
    """No generation is kept for later, so that a client finds what it has just changed."""
    for change in range(3):
        inner.generations[1] += 1
        assert await inner.polls.read(1, 10) == 11 + change


async def test_a_failure_is_told_to_all_that_wait(inner: Inner) -> None:
    """To ask for each alone would take as long again."""
    inner.scripted.fail("ListLocks", Unavailable(Reason.UNAVAILABLE, "the database does not answer"))
    found = await asyncio.gather(*(inner.polls.read(1, known) for known in range(5)), return_exceptions=True)
    assert {type(each) for each in found} == {Unavailable}
    assert inner.calls == []
