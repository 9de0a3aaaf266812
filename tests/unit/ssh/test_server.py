"""The socket of the SSH service: who may ask, and requests that are none."""

import asyncio
import gc
import json
import os
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from prometheus_client import REGISTRY

from services.common.rpc.client import ServiceClient
from services.common.ssh_client import MAX_REQUEST_BYTES
from services.ssh.interface import Facade
from services.ssh.server import SshServer, listening
from services.ssh.session import Sessions
from services.ssh.settings import SshSettings
from services.ssh.shares import Shares
from services.ssh.tokens import Keys
from tests.support.waiting import until

OWN = frozenset({os.geteuid()})
_SECONDS = 10.0
_KEY = f"SHA256:{'x' * 43}"


@asynccontextmanager
async def _serving(folder: Path, user_ids: frozenset[int], *, max_sessions: int = 2) -> AsyncIterator[Path]:
    """Run a server whose lock service is not there."""
    path = folder / "ssh.sock"
    settings = SshSettings(ssh_listen=path, locks_address=f"unix:{folder}/locks.sock")
    locks = ServiceClient(settings.locks_address, deadline=0.1)
    facade = Facade("http://127.0.0.1:1", None, None, 2)
    server = SshServer(Sessions(settings, facade, Keys(locks, 3600), Shares(max_sessions)), user_ids, max_sessions)
    stop = asyncio.Event()
    try:
        with listening(path) as listener:
            serving = asyncio.create_task(server.serve(listener, stop, 0.1))
            yield path
            stop.set()
            await serving
    finally:
        await facade.close()
        await locks.close()


def _ask(path: Path, data: bytes, descriptors: list[int]) -> bytes:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as asking:
        asking.settimeout(_SECONDS)
        asking.connect(str(path))
        try:
            if descriptors:
                socket.send_fds(asking, [data], descriptors)
            else:
                asking.sendall(data)
            asking.shutdown(socket.SHUT_WR)
            return asking.recv(65_536)
        except ConnectionError:
            return b""


def _open_descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def _sessions(program: str, result: str) -> float:
    labels = {"program": program, "result": result}
    return REGISTRY.get_sample_value("towpath_ssh_sessions_total", labels) or 0.0


def _request(**values: str) -> bytes:
    return json.dumps(values).encode() + b"\n"


async def test_another_account_is_not_answered(tmp_path: Path, pipe: tuple[int, int]) -> None:
    """Whoever may ask can be any user with a key."""
    request = _request(verb="serve", fingerprint=_KEY, command="sh")
    reading, writing = pipe
    async with _serving(tmp_path, frozenset({os.geteuid() + 1})) as path:
        assert await asyncio.to_thread(_ask, path, request, [reading, writing, writing]) == b""
    os.set_blocking(reading, False)
    with pytest.raises(BlockingIOError):
        os.read(reading, 1)


async def test_a_command_is_answered_with_its_status(tmp_path: Path, pipe: tuple[int, int]) -> None:
    """Its message is on the standard error that came with the request; the descriptors are closed afterwards."""
    reading, writing = pipe
    request = _request(verb="serve", fingerprint=_KEY, command="sh")
    before = _open_descriptors()
    counted = _sessions("other", "refused")
    async with _serving(tmp_path, OWN) as path:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as asking:
            asking.connect(str(path))
            socket.send_fds(asking, [request], [reading, writing, writing])
            asking.setblocking(False)
            answer = await asyncio.wait_for(asyncio.get_running_loop().sock_recv(asking, 100), _SECONDS)
    assert json.loads(answer) == {"status": 127}
    assert _sessions("other", "refused") == counted + 1
    assert os.read(reading, 1000).startswith(b"towpath: expected git-lfs-authenticate or git-lfs-transfer")
    await until(lambda: _open_descriptors() <= before + 1)


@pytest.mark.parametrize(
    ("request_", "count"),
    [
        (b"", 0),
        (b"no JSON\n", 0),
        (b"[]\n", 0),
        (b"[" * (MAX_REQUEST_BYTES - 1) + b"\n", 0),
        (b'{"a":' * 3000 + b"\n", 0),
        (b'{"fingerprint": ' + b"9" * 5000 + b"}\n", 0),
        (b"{}\n", 0),
        (_request(verb="keys", fingerprint="SHA256:\udc80"), 0),
        (_request(verb="keys", fingerprint=f"{_KEY}\n"), 0),
        (_request(verb="serve", fingerprint="\x1b[31m", command="sh"), 3),
        (b"\xff\n", 0),
        (b'{"verb": "keys"', 0),
        (b"x" * (2 * MAX_REQUEST_BYTES), 0),
        (_request(verb="other"), 0),
        (_request(verb="serve", fingerprint=_KEY, command="sh"), 0),
        (_request(verb="serve", fingerprint=_KEY, command="sh"), 2),
        (_request(verb="keys", fingerprint=_KEY), 0),
    ],
    ids=lambda value: repr(value)[:40],
)
async def test_other_requests_are_not_answered(tmp_path: Path, request_: bytes, count: int) -> None:
    """The last request is right, but the lock service is away: no key is better than a wrong one."""
    loop = asyncio.get_running_loop()
    # What was there before takes long to collect, and is not of this test.
    gc.freeze()
    failures: list[dict[str, object]] = []
    loop.set_exception_handler(lambda _, context: failures.append(context))
    async with _serving(tmp_path, OWN) as path:
        assert await asyncio.to_thread(_ask, path, request_, [0] * count) == b""
        assert path.exists()
    # Tasks that fail with what nobody foresaw are told when they are collected.
    gc.collect()
    gc.unfreeze()
    assert failures == []


async def test_a_socket_that_a_killed_process_left_is_replaced(tmp_path: Path) -> None:
    """One in use is not."""
    path = tmp_path / "ssh.sock"
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as left:
        left.bind(str(path))
    with listening(path), pytest.raises(ValueError, match="is in use"), listening(path):
        pass


@pytest.mark.parametrize("name", ["missing/ssh.sock", "x" * 200])
def test_a_path_that_cannot_be_used_is_named(tmp_path: Path, name: str) -> None:
    """The message names the setting."""
    with pytest.raises(ValueError, match="TOWPATH_SSH_LISTEN: "), listening(tmp_path / name):
        pass


def test_unknown_accounts_are_refused(tmp_path: Path) -> None:
    """At the start, with the setting's name."""
    settings = SshSettings(ssh_listen=tmp_path, locks_address="unix:x", ssh_users="root, no-such-account")
    with pytest.raises(ValueError, match="TOWPATH_SSH_USERS: "):
        settings.user_ids()
    assert SshSettings(ssh_listen=tmp_path, locks_address="unix:x").user_ids() == {0, os.geteuid()}
