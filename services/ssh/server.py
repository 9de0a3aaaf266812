"""The unix socket on which the client of OpenSSH asks, and its requests.

Only root, the service's own account and those of `TOWPATH_SSH_USERS` are answered: whoever may ask can open a session
of any key.
"""

import asyncio
import json
import os
import socket
import struct
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from services.common.errors import NotFound, ServiceError
from services.common.fingerprint import is_fingerprint
from services.common.lifecycle import cancel_and_wait
from services.common.observability.logs import get_logger
from services.common.ssh_client import MAX_REQUEST_BYTES
from services.ssh.metrics import OTHER, SESSIONS, TURNED_AWAY
from services.ssh.session import Sessions
from services.ssh.shares import SHARE_OF_ONE

_BACKLOG = 512
_REQUEST_SECONDS = 5.0
_STANDARD = 3

_log = get_logger(__name__)


@contextmanager
def listening(path: Path) -> Iterator[socket.socket]:
    """Listen on a path that every account may connect to; peers are checked by their account.

    A socket that a killed process left is replaced. Raises ValueError for a path that cannot be used, or is in use.
    """
    server = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe, suppress(FileNotFoundError):
            try:
                probe.connect(str(path))
                raise ValueError(f"TOWPATH_SSH_LISTEN: expected a path that is free, and {path} is in use")
            except ConnectionRefusedError:
                path.unlink()
        server.bind(str(path))
        path.chmod(0o666)
        server.listen(_BACKLOG)
        server.setblocking(False)
        yield server
    except OSError as error:
        raise ValueError(f"TOWPATH_SSH_LISTEN: {path}: {(error.strerror or str(error)).lower()}") from error
    finally:
        server.close()
        path.unlink(missing_ok=True)


class SshServer:
    """Answers requests; sessions are bounded in number, and a key's to a quarter of them."""

    def __init__(self, sessions: Sessions, user_ids: frozenset[int], max_sessions: int) -> None:
        self._sessions = sessions
        self._user_ids = user_ids
        self._max_sessions = max_sessions
        self._tasks: set[asyncio.Task[None]] = set()
        self._by_key: Counter[str] = Counter()

    async def serve(self, listener: socket.socket, stop: asyncio.Event, drain_seconds: float) -> None:
        """Accept until `stop` is set, then let sessions go on for a while."""
        accepting = asyncio.create_task(self._accept(listener))
        stopping = asyncio.create_task(stop.wait())
        await asyncio.wait((accepting, stopping), return_when=asyncio.FIRST_COMPLETED)
        await cancel_and_wait(accepting, stopping)
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=drain_seconds)
        await cancel_and_wait(*self._tasks)

    async def _accept(self, listener: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                connection, _ = await loop.sock_accept(listener)
            except OSError as error:
                # Such as too many open files.
                _log.warning("a connection was not accepted", error=str(error))
                await asyncio.sleep(0.1)
                continue
            # A connection that waits already is accepted without a turn of the loop, and many would leave it none.
            await asyncio.sleep(0)
            # Those that have not asked yet count, too; a key of a session needs a place for its own look-up.
            if len(self._tasks) >= 2 * self._max_sessions or not self._is_allowed(connection):
                connection.close()
                continue
            task = asyncio.create_task(self._answer(connection))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    def _is_allowed(self, connection: socket.socket) -> bool:
        _, user_id, _ = struct.unpack("3i", connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
        if user_id in self._user_ids:
            return True
        _log.warning("an account that is not in TOWPATH_SSH_USERS was refused", user_id=user_id)
        return False

    async def _answer(self, connection: socket.socket) -> None:
        descriptors: list[int] = []
        try:
            request = await _receive(connection, descriptors)
            answer = await self._handle(request, descriptors, connection)
            with suppress(OSError):
                await asyncio.get_running_loop().sock_sendall(connection, json.dumps(answer).encode() + b"\n")
        except (ValueError, OSError, TimeoutError) as error:
            _log.warning("a request of the SSH client was refused", error=str(error))
        except ServiceError as error:
            _log.warning("an SSH key was not looked up", error=error.message)
        finally:
            connection.close()
            for descriptor in descriptors:
                with suppress(OSError):
                    os.set_blocking(descriptor, True)
                os.close(descriptor)

    async def _handle(
        self, request: dict[str, Any], descriptors: list[int], connection: socket.socket
    ) -> dict[str, object]:
        fingerprint = request.get("fingerprint")
        if not isinstance(fingerprint, str) or not is_fingerprint(fingerprint):
            raise ValueError("fingerprint: expected the SHA-256 of a key as OpenSSH prints it")
        match request.get("verb"):
            case "keys":
                try:
                    key = await self._sessions.keys.find(fingerprint)
                except NotFound:
                    return {}
                return {"public_key": key.public_key}
            case "serve" if len(descriptors) == _STANDARD:
                return {
                    "status": await self._serve(fingerprint, str(request.get("command", "")), descriptors, connection)
                }
        raise ValueError("expected the verb keys, or serve with three descriptors")

    async def _serve(self, fingerprint: str, text: str, descriptors: list[int], connection: socket.socket) -> int:
        stdin, stdout, stderr = descriptors
        most = self._max_sessions
        if self._by_key.total() >= most or self._by_key[fingerprint] >= max(1, most // SHARE_OF_ONE):
            SESSIONS.labels(OTHER, TURNED_AWAY).inc()
            os.set_blocking(stderr, False)
            with suppress(OSError):
                os.write(stderr, b"towpath: too many sessions over SSH; try again later\n")
            return 1
        self._by_key[fingerprint] += 1
        session = asyncio.create_task(self._sessions.run(fingerprint, text, (stdin, stdout, stderr)))
        gone = asyncio.create_task(_until_closed(connection))
        try:
            await asyncio.wait((session, gone), return_when=asyncio.FIRST_COMPLETED)
            return session.result() if session.done() else 1
        finally:
            await cancel_and_wait(session, gone)
            self._by_key[fingerprint] -= 1
            if not self._by_key[fingerprint]:
                del self._by_key[fingerprint]


async def _until_closed(connection: socket.socket) -> None:
    """Return when the client's process is gone, or sends what it should not."""
    with suppress(OSError):
        await asyncio.get_running_loop().sock_recv(connection, 1)


def _set(ready: asyncio.Future[None]) -> None:
    if not ready.done():
        ready.set_result(None)


async def _receive(connection: socket.socket, descriptors: list[int]) -> dict[str, Any]:
    """Return a request, and add the descriptors that came with it. Raises ValueError, OSError and TimeoutError."""
    connection.setblocking(False)
    loop = asyncio.get_running_loop()
    line = b""
    async with asyncio.timeout(_REQUEST_SECONDS):
        while not line.endswith(b"\n"):
            try:
                part, received, _, _ = socket.recv_fds(connection, MAX_REQUEST_BYTES, _STANDARD)
            except BlockingIOError:
                readable: asyncio.Future[None] = loop.create_future()
                loop.add_reader(connection, _set, readable)
                try:
                    await readable
                finally:
                    loop.remove_reader(connection)
                continue
            descriptors += received
            line += part
            if not part or len(line) > MAX_REQUEST_BYTES or len(descriptors) > _STANDARD:
                raise ValueError("expected one line with a request")
    for descriptor in descriptors:
        os.set_inheritable(descriptor, False)
    try:
        request = json.loads(line)
    except RecursionError as error:
        raise ValueError("expected JSON of less depth") from error
    if not isinstance(request, dict):
        raise ValueError("expected an object of JSON")  # noqa: TRY004 - it is input that is wrong, and no type
    return request
