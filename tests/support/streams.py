"""The end of asyncio's streams."""

import asyncio
from collections.abc import Iterable
from contextlib import suppress


async def end(writers: Iterable[asyncio.StreamWriter]) -> None:
    """Give up these connections, and return when their sockets are closed.

    A writer that is merely closed keeps its socket for one more turn of the loop; where the loop ends before it,
    the socket is found open by whatever test runs when the garbage is collected.
    """
    writers = tuple(writers)
    for writer in writers:
        # One that was closed, and has nothing left to send, closes by itself; CPython fails at aborting some of those.
        if writer.transport.get_write_buffer_size() or not writer.is_closing():
            writer.transport.abort()
    for writer in writers:
        with suppress(OSError):
            await writer.wait_closed()
