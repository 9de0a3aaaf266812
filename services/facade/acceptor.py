"""Which of the facades that share a listening socket takes a connection (docs/decisions/0026)."""

import asyncio
import socket
import ssl
from collections.abc import Callable, Sized
from contextlib import suppress

from services.common.lifecycle import end
from services.common.logs import get_logger

# git-lfs moves eight objects at once, and asks for the next ones meanwhile.
_ONE_CLIENT = 10
# One that was taken by chance, while another waited for its turn, does not make a second one of it.
_SOME = 3
_IDLE_SECONDS = 0.001
_BUSY_SECONDS = 0.002
_FAILED_SECONDS = 1.0

_log = get_logger(__name__)


class Acceptor:
    """Takes connections from a socket on which other processes may wait as well, and hands them to a protocol.

    What one client asks over several connections goes to the inner services together where one process has them all.
    So who has some takes the next ones at once, who has hardly any leaves them to those for a millisecond, and who has
    as many as git-lfs opens leaves them to both for two. `close` begins its end, `wait_closed` waits for it.
    """

    def __init__(
        self,
        listener: socket.socket,
        connections: Sized,
        protocol: Callable[[], asyncio.Protocol],
        context: ssl.SSLContext | None,
    ) -> None:
        """Begin to take them; `connections` are those of this process, and with a `context` they are encrypted."""
        self._listener = listener
        self._connections = connections
        self._protocol = protocol
        self._context = context
        self._loop = asyncio.get_running_loop()
        self._opening: set[asyncio.Task[None]] = set()
        self._waiting: asyncio.TimerHandle | None = None
        self._watch()

    def close(self) -> None:
        """Take no more."""
        self._loop.remove_reader(self._listener)
        if self._waiting is not None:
            self._waiting.cancel()

    async def wait_closed(self) -> None:
        """Give up those that were taken and are not open yet."""
        await end(*self._opening)

    def _watch(self) -> None:
        self._waiting = None
        self._loop.add_reader(self._listener, self._take_turn)

    def _watch_in(self, seconds: float, then: Callable[[], None]) -> None:
        self._loop.remove_reader(self._listener)
        self._waiting = self._loop.call_later(seconds, then)

    def _take_turn(self) -> None:
        """Take what waits, now or when others have had the time to."""
        count = self._count
        if _SOME <= count < _ONE_CLIENT:
            self._take(_ONE_CLIENT - count)
        else:
            self._watch_in(_IDLE_SECONDS if count < _SOME else _BUSY_SECONDS, self._take_late)

    def _take_late(self) -> None:
        self._watch()
        # Those that wait together, so that thousands are taken in a second where so many come.
        self._take(_ONE_CLIENT)

    @property
    def _count(self) -> int:
        return len(self._connections) + len(self._opening)

    def _take(self, most: int) -> None:
        try:
            for _ in range(most):
                connection, _address = self._listener.accept()
                opening = self._loop.create_task(self._open(connection))
                self._opening.add(opening)
                opening.add_done_callback(self._opening.discard)
        except (BlockingIOError, ConnectionAbortedError, InterruptedError):
            pass
        except OSError as error:
            # Mostly, too many files are open.
            _log.error("no connection can be taken", error=str(error))
            self._watch_in(_FAILED_SECONDS, self._watch)

    async def _open(self, connection: socket.socket) -> None:
        connection.setblocking(False)
        if connection.family != socket.AF_UNIX:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        # Who is gone again, or knows no TLS, has asked for nothing.
        with suppress(OSError):
            await self._loop.connect_accepted_socket(self._protocol, connection, ssl=self._context)
