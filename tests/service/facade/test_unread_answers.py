"""Answers that are sent as a whole, to clients that do not read them."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass

import pytest

from tests.service.facade import raw
from tests.service.facade.conftest import Inner, new_place
from tests.support.facade import RunningFacade
from tests.support.http import Action, content
from tests.support.waiting import STEP_SECONDS

SIZE = 200 * 1024
IDLE_SECONDS = 0.5
MANY = 60
"""More such answers than fit on the way."""


@dataclass
class Unread:
    """A facade, and the action that downloads an object which is sent as a whole."""

    facade: RunningFacade
    action: Action
    data: bytes


@pytest.fixture
async def unread(inner: Inner) -> AsyncIterator[Unread]:
    """For clients that may not read for half a second."""
    data = content("unread", SIZE)
    async with inner.running_facade(shared_storage_path=inner.storage.root, body_idle_seconds=IDLE_SECONDS) as facade:
        place = await new_place(facade, inner)
        oid = await inner.storage.write(place.repository_id, data)
        async with place.client() as alice:
            action = await alice.action("download", oid, SIZE)
        assert action is not None
        yield Unread(facade, action, data)


async def test_a_client_that_reads_no_answers_is_cut_off(unread: Unread) -> None:
    """A client that reads nothing must not hold memory or places, whether it has asked for more or not."""
    async with raw.connected(unread.facade) as (reader, writer):
        # Before it reads anything, asyncio takes in a few MiB.
        for _ in range(MANY):
            writer.write(raw.head(unread.action, "GET"))
        reader._transport.pause_reading()  # type: ignore[attr-defined] # asyncio's own way, which it does not type
        # The client's silence.
        await asyncio.sleep(4 * IDLE_SECONDS)
        reader._transport.resume_reading()  # type: ignore[attr-defined] # see above
        with pytest.raises((ConnectionError, asyncio.IncompleteReadError)):
            await asyncio.wait_for(reader.readexactly(MANY * SIZE), STEP_SECONDS)


async def test_a_client_that_reads_slowly_gets_all(unread: Unread) -> None:
    """However long it takes."""
    async with raw.connected(unread.facade) as (reader, writer):
        for _ in range(MANY):
            writer.write(raw.head(unread.action, "GET"))
        for _ in range(MANY):
            assert (await raw.answer(reader))[::2] == (200, unread.data)
            # The client's slowness.
            await asyncio.sleep(IDLE_SECONDS / 5)
