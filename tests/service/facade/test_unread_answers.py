"""Answers that are sent as a whole, to clients that do not read them."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from tests.service.facade import raw
from tests.service.facade.conftest import Inner, new_place
from tests.support.facade import RunningFacade
from tests.support.http import content
from tests.support.waiting import STEP_SECONDS

DATA = content("unread", 200 * 1024)
"""Of the size that is sent as a whole."""

IDLE_SECONDS = 0.5
MANY = 60
"""More such answers than fit on the way."""


@asynccontextmanager
async def _unread(inner: Inner, idle_seconds: float) -> AsyncIterator[tuple[RunningFacade, bytes]]:
    """Run a facade for clients that may not read for so long; yield it, and the head of a request for DATA."""
    async with inner.running_facade(shared_storage_path=inner.storage.root, body_idle_seconds=idle_seconds) as facade:
        yield facade, raw.head(await (await new_place(facade, inner)).held(DATA), "GET")


async def test_a_client_that_reads_no_answers_is_cut_off(inner: Inner) -> None:
    """A client that reads nothing must not hold memory or places, whether it has asked for more or not."""
    idle_seconds = 0.2
    async with _unread(inner, idle_seconds) as (facade, head), raw.connected(facade) as (reader, writer):
        # Before it reads anything, asyncio takes in a few MiB.
        writer.write(head * MANY)
        reader._transport.pause_reading()  # type: ignore[attr-defined] # asyncio's own way, which it does not type
        # The client's silence.
        await asyncio.sleep(4 * idle_seconds)
        reader._transport.resume_reading()  # type: ignore[attr-defined] # see above
        with pytest.raises((ConnectionError, asyncio.IncompleteReadError)):
            await asyncio.wait_for(reader.readexactly(MANY * len(DATA)), STEP_SECONDS)


async def test_a_client_that_reads_slowly_gets_all(inner: Inner) -> None:
    """A client that reads again and again is not silent, however long the whole takes."""
    async with _unread(inner, IDLE_SECONDS) as (facade, head), raw.connected(facade) as (reader, writer):
        writer.write(head * MANY)
        for number in range(MANY):
            assert (await raw.answer(reader))[::2] == (200, DATA)
            # The client's slowness, for three times as long as a silent one may stay.
            await asyncio.sleep(IDLE_SECONDS / 5 if number < 15 else 0)
