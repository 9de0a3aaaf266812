"""A name server that knows one name, and tells the addresses that a test gives it."""

import asyncio
import socket
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import cast

_ADDRESS_RECORD = 1
_ANSWER, _NAME_OF_THE_QUESTION = 0x8180, 0xC00C


class NameServer(asyncio.DatagramProtocol):
    """It answers every question for IPv4 addresses with `addresses`, and all others with nothing."""

    def __init__(self) -> None:
        self.addresses: list[str] = []
        self._transport: asyncio.DatagramTransport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the socket."""
        self._transport = cast("asyncio.DatagramTransport", transport)

    def datagram_received(self, data: bytes, addr: tuple[str, int]) -> None:
        """Answer a question."""
        assert self._transport is not None
        end = data.index(b"\0", 12) + 5
        asked = struct.unpack("!H", data[end - 4 : end - 2])[0]
        found = self.addresses if asked == _ADDRESS_RECORD else []
        records = b"".join(
            struct.pack("!HHHIH", _NAME_OF_THE_QUESTION, _ADDRESS_RECORD, 1, 0, 4) + socket.inet_aton(address)
            for address in found
        )
        header = struct.pack("!2sHHHHH", data[:2], _ANSWER, 1, len(found), 0, 0)
        self._transport.sendto(header + data[12:end] + records, addr)


@asynccontextmanager
async def name_server() -> AsyncIterator[tuple[NameServer, int]]:
    """Run one; yield it and its port on 127.0.0.1."""
    loop = asyncio.get_running_loop()
    transport, protocol = await loop.create_datagram_endpoint(NameServer, local_addr=("127.0.0.1", 0))
    try:
        yield protocol, transport.get_extra_info("sockname")[1]
    finally:
        transport.close()
