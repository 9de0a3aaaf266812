"""Buffer for the head of an answer, sent together with the beginning of the body."""

import asyncio
from typing import Any


class HeadBuffer:
    """A transport that sends the head of an answer together with the bytes after it.

    If a facade died between the two, a proxy would have passed the head on and could not retry at another facade; and
    one packet costs less than two. After writing a head, the caller must write on, close, or call `flush`.
    """

    def __init__(self, transport: asyncio.Transport) -> None:
        self._transport = transport
        self._head = b""

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - whatever else a transport has
        return getattr(self._transport, name)

    def write(self, data: bytes) -> None:
        """Send bytes, or buffer them where they are the head of an answer."""
        if self._head:
            self._transport.writelines((self._head, data))
            self._head = b""
        elif data.startswith(b"HTTP/1.1 ") and not data.startswith(b"HTTP/1.1 100 "):
            self._head = data
        else:
            self._transport.write(data)

    def flush(self) -> None:
        """Send the buffered head, if there is one."""
        if self._head:
            self._transport.write(self._head)
            self._head = b""

    def close(self) -> None:
        """Send the buffered head, and close."""
        self.flush()
        self._transport.close()
