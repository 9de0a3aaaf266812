"""HTTP/1.1 by hand, for what no client does."""

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from tests.support import streams
from tests.support.facade import RunningFacade
from tests.support.http import Action
from tests.support.waiting import STEP_SECONDS

MIB = 1024**2


@asynccontextmanager
async def connected(facade: RunningFacade) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    """Connect to a facade; a client that does not read takes in 10 MiB at the most."""
    with socket.socket() as connection:
        # The kernel would take in 32 MiB, and an object that is to be left unread would have to be larger.
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, MIB)
        connection.setblocking(False)
        await asyncio.get_running_loop().sock_connect(connection, facade.address)
        reader, writer = await asyncio.open_connection(sock=connection, limit=4 * MIB)
        try:
            yield reader, writer
        finally:
            await streams.end([writer])


@asynccontextmanager
async def downloading(facade: RunningFacade, action: Action) -> AsyncIterator[asyncio.StreamReader]:
    """Ask for an object, and read the head of the answer and no more."""
    async with connected(facade) as (reader, writer):
        writer.write(head(action, "GET"))
        await reader.readuntil(b"\r\n\r\n")
        yield reader


def head(action: Action, method: str, **headers: str) -> bytes:
    """Return the head of a request on an action's URL."""
    path = "/" + action.href.partition("://")[2].partition("/")[2]
    lines = [
        f"{method} {path} HTTP/1.1",
        "Host: localhost",
        *(f"{name}: {text}" for name, text in action.header.items()),
    ]
    lines += [f"{name.replace('_', '-')}: {text}" for name, text in headers.items()]
    return ("\r\n".join(lines) + "\r\n\r\n").encode()


async def answer(reader: asyncio.StreamReader) -> tuple[int, dict[str, str], bytes]:
    """Return the status, the headers and the body of an answer."""
    async with asyncio.timeout(STEP_SECONDS):
        lines = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
        headers = {name.lower(): text for name, _, text in (line.partition(": ") for line in lines[1:])}
        body = await reader.readexactly(int(headers.get("content-length", "0")))
    return int(lines[0].split()[1]), headers, body


async def ask(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Make a request, and see that it is answered."""
    writer.write(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
    assert (await answer(reader))[0] == 200
