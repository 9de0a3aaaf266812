"""The head of an answer, held back until its body begins."""

import asyncio
from typing import Any


class HeadBuffer:
    """A transport that sends the head of an answer together with what follows it.

    A facade that dies in between would leave a proxy with half an answer, which it has passed on and cannot ask another
    facade for; and one packet costs less than two. Whoever has written a head writes on, closes, or calls `flush`.
    """

    def __init__(self, transport: asyncio.Transport) -> None:
        self._transport = transport
        self._head = b""

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - whatever else a transport has
        return getattr(self._transport, name)

    def write(self, data: bytes) -> None:
        """Send bytes, or hold them back where they are the head of an answer."""
        if self._head:
            self._transport.writelines((self._head, data))
            self._head = b""
        elif data.startswith(b"HTTP/1.1 ") and not data.startswith(b"HTTP/1.1 100 "):
            self._head = data
        else:
            self._transport.write(data)

    def flush(self) -> None:
        """Send the head that is held back, if there is one."""
        if self._head:
            self._transport.write(self._head)
            self._head = b""

    def close(self) -> None:
        """Send what is held back, and close."""
        self.flush()
        self._transport.close()
