"""A process of its own that posts JSON to the service, once for each line of its input.

Each line is a JSON array of a path below the base address and a body; each line of the output is a JSON array of the
status and the body of the answer.
"""

import asyncio
import json
import os
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from tests.support.http import Client


@asynccontextmanager
async def poster(base_url: str, user: str, token: str, *, ref: str) -> AsyncIterator[Process]:
    """Run the process for a user, whose every request names a ref."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", __name__, base_url, user, ref),
        env={**os.environ, "TOKEN": token},
        stdin=PIPE,
        stdout=PIPE,
        # A line is the answer for a thousand paths.
        limit=2**24,
    )
    assert process.stdin is not None
    try:
        yield process
    finally:
        process.stdin.close()
        assert await process.wait() == 0


async def post(process: Process, path: str, **body: object) -> tuple[int, Any]:
    """Let a process post once, and return the status and the body of the answer."""
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(json.dumps([path, body]).encode() + b"\n")
    status, answer = json.loads(await process.stdout.readline())
    return status, answer


async def _main(base_url: str, user: str, ref: str) -> None:
    async with Client(base_url, user, os.environ["TOKEN"], ref=ref) as client:
        for line in sys.stdin:
            path, body = json.loads(line)
            answer = await client.post(path, **body)
            sys.stdout.write(json.dumps([answer.status_code, answer.json()]) + "\n")
            sys.stdout.flush()


if __name__ == "__main__":
    asyncio.run(_main(*sys.argv[1:]))
