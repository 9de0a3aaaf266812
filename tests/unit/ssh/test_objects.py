"""Uploads over SSH that fail before their data is there."""

import asyncio
import os

import pytest

from services.ssh.asked_refs import AskedRefs
from services.ssh.descriptors import Input, Output
from services.ssh.interface import Facade, Repository
from services.ssh.objects import Objects
from services.ssh.pkt_line import Message, Reader, Writer
from tests.support.loop import never

_SECONDS = 30.0


async def test_an_error_that_ends_the_session_waits_for_no_data() -> None:
    """The client has sent nothing yet and keeps its end open; reading the data would wait for it."""
    reading, writing = os.pipe()
    facade = Facade("http://127.0.0.1:1", None, None, 1)
    await facade.close()
    try:
        repository = Repository(facade, "studio/film", "alice", "secret", never)
        reader, writer = Reader(Input(reading), _SECONDS), Writer(Output(writing, _SECONDS))
        objects = Objects(repository, AskedRefs(), "upload", reader, writer)
        message = Message("put-object", {"size": "5"}, ended=False)
        with pytest.raises(RuntimeError, match="closed"):
            async with asyncio.timeout(_SECONDS):
                await objects.put("a" * 64, message)
    finally:
        os.close(reading)
        os.close(writing)
