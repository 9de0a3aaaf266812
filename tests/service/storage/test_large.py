"""One object of more than 4 GiB through a real process: 64-bit sizes everywhere, and memory that does not grow."""

from collections.abc import Iterator

import psutil
import pytest
from towpath.storage.v1 import storage_service_pb2 as pb

from services.common.rpc.options import CHUNK_BYTES
from tests.support.storage import StorageClient, StorageProcess, upload
from tests.support.waiting import LONG_SECONDS

GIB = 1024**3
SIZE = 4 * GIB + 3
OID = "318e01702cd7413290bc5004d33f5a0bc296ca51e70ed23a0c41922589640900"
"""The SHA-256 of 4 GiB of zeros and then `end`."""

GROWTH = 64 * 1024**2


def _content() -> Iterator[bytes]:
    zeros = bytes(CHUNK_BYTES)
    for _ in range(SIZE // CHUNK_BYTES):
        yield zeros
    yield b"end"


@pytest.mark.drill
async def test_traps_7_and_9_more_than_4_gib(process: StorageProcess, client: StorageClient) -> None:
    """4 GiB go up and 1 GiB down in less than 64 MiB; ranges beyond 4 GiB are right (trap-7, trap-8, trap-9)."""
    await process.start()
    await client.read(1, await client.write(1, bytes(3 * CHUNK_BYTES)))
    assert process.process is not None
    watched = psutil.Process(process.process.pid)
    before = watched.memory_info().rss
    highest = before

    call = client.stub.WriteObject(timeout=LONG_SECONDS)
    for number, message in enumerate(upload(1, OID, SIZE, _content())):
        await call.write(message)
        if number % 64 == 0:
            highest = max(highest, watched.memory_info().rss)
    await call.done_writing()
    assert (await call).object.size == SIZE

    whole = client.stub.ReadObject(pb.ReadObjectRequest(repository_id=1, oid=OID, length=GIB), timeout=LONG_SECONDS)
    received = 0
    async for response in whole:
        received += len(response.data)
        if received % (64 * CHUNK_BYTES) == 0:
            highest = max(highest, watched.memory_info().rss)
    assert received == GIB
    assert highest - before < GROWTH

    assert await client.read(1, OID, offset=4 * GIB - 2) == b"\0\0end"
    assert await client.read(1, OID, offset=4 * GIB + 1, length=1) == b"n"
    assert (await client.stat(1, (OID, 0))).objects[0].size == SIZE
    usage = await client.usage(1)
    assert usage.object_bytes == SIZE + 3 * CHUNK_BYTES
    assert usage.bytes_out_today > GIB
