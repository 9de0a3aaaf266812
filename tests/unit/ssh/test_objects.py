"""Objects over SSH: uploads that fail before their data is there, and sizes that are not those of the batch."""

import asyncio

import pytest

from services.ssh.asked_refs import AskedRefs
from services.ssh.descriptors import Input, Output
from services.ssh.errors import Refused
from services.ssh.interface import Facade, Repository
from services.ssh.objects import Objects
from services.ssh.pkt_line import Message, Reader, Writer
from tests.support.loop import never

_SECONDS = 30.0


@pytest.fixture
async def objects(operation: str, pipe: tuple[int, int]) -> Objects:
    """The commands of a session whose client sends nothing, and whose facade is closed."""
    facade = Facade("http://127.0.0.1:1", None, None, 1)
    await facade.close()
    repository = Repository(facade, "studio/film", "alice", "secret", never)
    reader, writer = Reader(Input(pipe[0]), _SECONDS), Writer(Output(pipe[1], _SECONDS))
    return Objects(repository, AskedRefs(), operation, reader, writer)


@pytest.mark.parametrize("operation", ["upload"])
async def test_an_error_that_ends_the_session_waits_for_no_data(objects: Objects) -> None:
    """The client has sent nothing yet and keeps its end open; reading the data would wait for it."""
    message = Message("put-object", {"size": "5"}, ended=False)
    with pytest.raises(RuntimeError, match="closed"):
        async with asyncio.timeout(_SECONDS):
            await objects.put("a" * 64, message)


@pytest.mark.parametrize("operation", ["download"])
async def test_an_object_has_the_size_that_its_batch_was_asked_for(objects: Objects) -> None:
    """A client that asks for another size by the same `id` is refused before the facade is asked."""
    message = Message("get-object", {"size": "5", "id": "6."}, ended=True)
    with pytest.raises(Refused, match="size: expected the size that the batch was asked for"):
        await objects.get("a" * 64, message)
