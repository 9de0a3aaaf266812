"""Objects over SSH: uploads that fail before their data is there, and sizes that are not those of the batch."""

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from services.ssh.asked_refs import AskedRefs
from services.ssh.descriptors import Input, Output
from services.ssh.errors import Refused
from services.ssh.interface import Facade, Repository
from services.ssh.objects import Objects
from services.ssh.pkt_line import Message, Reader, Writer
from tests.support.loop import never

_SECONDS = 30.0


@asynccontextmanager
async def _objects(operation: str) -> AsyncIterator[Objects]:
    """Yield the commands of a session whose client sends nothing, and whose facade is closed."""
    reading, writing = os.pipe()
    facade = Facade("http://127.0.0.1:1", None, None, 1)
    await facade.close()
    try:
        repository = Repository(facade, "studio/film", "alice", "secret", never)
        reader, writer = Reader(Input(reading), _SECONDS), Writer(Output(writing, _SECONDS))
        yield Objects(repository, AskedRefs(), operation, reader, writer)
    finally:
        os.close(reading)
        os.close(writing)


async def test_an_error_that_ends_the_session_waits_for_no_data() -> None:
    """The client has sent nothing yet and keeps its end open; reading the data would wait for it."""
    message = Message("put-object", {"size": "5"}, ended=False)
    async with _objects("upload") as objects:
        with pytest.raises(RuntimeError, match="closed"):
            async with asyncio.timeout(_SECONDS):
                await objects.put("a" * 64, message)


async def test_an_object_has_the_size_that_its_batch_was_asked_for() -> None:
    """A client that asks for another size by the same `id` is refused before the facade is asked."""
    message = Message("get-object", {"size": "5", "id": "6."}, ended=True)
    async with _objects("download") as objects:
        with pytest.raises(Refused, match="size: expected the size that the batch was asked for"):
            await objects.get("a" * 64, message)
