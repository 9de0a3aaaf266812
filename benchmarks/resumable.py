"""Duration of a resumable upload of 64 MiB, relative to a PUT of the same size.

`python -m benchmarks.resumable` runs a `towpath up`, uploads new objects in both ways in turn, each in one request, and
prints the medians and their ratio. A resumable upload is written in parts first, and then as a whole.
"""

import asyncio
import os
import statistics
import time
from collections.abc import AsyncIterator, Callable, Coroutine

from services.common.rpc.options import CHUNK_BYTES
from tests.support.http import Action, Client, oid_of
from tests.support.stack import running_stack

_MEBIBYTE = 1024 * 1024
_SIZES = (1 * _MEBIBYTE, 64 * _MEBIBYTE)
_ROUNDS = 7

Send = Callable[[Client, Action, bytes], Coroutine[object, object, int]]


async def _put(client: Client, action: Action, data: bytes) -> int:
    return (await client.put(action, data, len(data))).status_code


async def _tus(client: Client, action: Action, data: bytes) -> int:
    tus = {**action.header, "Tus-Resumable": "1.0.0"}
    offset = (await client.http.head(action.href, headers=tus)).headers["upload-offset"]
    headers = {**tus, "Upload-Offset": offset, "Content-Type": "application/offset+octet-stream"}
    headers["Content-Length"] = str(len(data))

    async def body() -> AsyncIterator[bytes]:
        for start in range(0, len(data), CHUNK_BYTES):
            yield data[start : start + CHUNK_BYTES]

    return (await client.http.patch(action.href, headers=headers, content=body())).status_code


async def _seconds(client: Client, send: Send, data: bytes) -> float:
    action = await client.action("upload", oid_of(data), len(data))
    assert action is not None
    began = time.perf_counter()
    status = await send(client, action, data)
    seconds = time.perf_counter() - began
    assert status in (200, 204), status
    return seconds


async def _main() -> None:
    with running_stack() as stack:
        async with Client(stack.base_url, "alice", stack.tokens["alice"]) as client:
            for size in _SIZES:
                taken: dict[Send, list[float]] = {_put: [], _tus: []}
                for _ in range(_ROUNDS):
                    for send, seconds in taken.items():
                        seconds.append(await _seconds(client, send, os.urandom(size)))
                put, tus = (statistics.median(seconds) for seconds in taken.values())
                print(
                    f"{size // _MEBIBYTE} MiB: PUT {put * 1000:.0f} ms, tus {tus * 1000:.0f} ms, ratio {tus / put:.2f}"
                )


if __name__ == "__main__":
    asyncio.run(_main())
