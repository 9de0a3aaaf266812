"""A receiver of webhooks: an HTTP server that records its requests and answers as a test tells it to."""

import asyncio
import json
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from standardwebhooks import Webhook

OK = b"HTTP/1.1 204 No Content\r\n\r\n"


def answer(status: int, *headers: str, body: bytes = b"") -> bytes:
    """Return an answer as it is sent."""
    lines = [f"HTTP/1.1 {status} Told", f"Content-Length: {len(body)}", *headers]
    return "".join(f"{line}\r\n" for line in lines).encode() + b"\r\n" + body


@dataclass(frozen=True)
class Request:
    """A request that was received, its header names in lower case."""

    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def id(self) -> str:
        """The id of the message."""
        return self.headers["webhook-id"]

    @property
    def json(self) -> dict[str, Any]:
        """The body."""
        body: dict[str, Any] = json.loads(self.body)
        return body

    def verify(self, secret: str) -> dict[str, Any]:
        """Return the body if Standard Webhooks accepts the signature."""
        body: dict[str, Any] = Webhook(secret).verify(self.body, self.headers)
        return body


@dataclass
class Receiver:
    """A running receiver. It answers with those of `answers`, in order, and then always with `otherwise`."""

    port: int = 0
    requests: list[Request] = field(default_factory=list)
    answers: list[bytes] = field(default_factory=list)
    otherwise: bytes = OK
    may_answer: asyncio.Event = field(default_factory=asyncio.Event)
    """It answers nothing while this is not set."""
    ends: bool = True
    """It closes the connection after an answer."""

    def __post_init__(self) -> None:
        self.may_answer.set()

    @property
    def url(self) -> str:
        """The URL of the receiver."""
        return f"http://127.0.0.1:{self.port}/hook?for=towpath"

    @property
    def paths(self) -> list[str]:
        """The paths of the locks of which it was told, in order."""
        return [request.json["data"]["lock"]["path"] for request in self.requests]

    async def handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Receive one request and answer it."""
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode("ascii").splitlines()
            headers = {name.lower(): value for name, value in (line.split(": ", 1) for line in head[1:-1])}
            body = await reader.readexactly(int(headers["content-length"]))
            self.requests.append(Request(head[0].split(" ")[1], headers, body))
            await self.may_answer.wait()
            writer.write(self.answers.pop(0) if self.answers else self.otherwise)
            await writer.drain()
            if not self.ends:
                await reader.read()
        except (asyncio.IncompleteReadError, ConnectionError):
            # The service may be killed in the midst, or have enough of an answer.
            pass
        finally:
            writer.close()


@asynccontextmanager
async def running_receiver(*, tls: ssl.SSLContext | None = None) -> AsyncIterator[Receiver]:
    """Run a receiver on a free port of 127.0.0.1."""
    receiver = Receiver()
    server = await asyncio.start_server(receiver.handle, "127.0.0.1", 0, ssl=tls)
    receiver.port = server.sockets[0].getsockname()[1]
    try:
        yield receiver
    finally:
        receiver.may_answer.set()
        server.close()
