"""A facade as a process of its own, which can be told to stop and looked into."""

import asyncio
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx

from services.facade.server.http_server import listening_socket
from tests.service.facade.conftest import Inner, Place, new_place
from tests.support.facade import RunningFacade
from tests.support.service_process import service_process
from tests.support.waiting import STEP_SECONDS

SIGNING_KEY = "a key that signs nothing outside of this test"


@contextmanager
def facade_process(inner: Inner, folder: Path, **settings: object) -> Iterator[tuple[subprocess.Popen[bytes], str]]:
    """Run one, whose log is `folder`/facade.log; yield it and its origin."""
    own: dict[str, object] = {
        "storage_address": inner.storage.address,
        "locks_address": inner.locks.address,
        "signing_key": SIGNING_KEY,
    }
    with listening_socket("127.0.0.1:0") as listener:
        number = listener.fileno()
        origin = f"http://127.0.0.1:{listener.getsockname()[1]}"
        chosen = {**own, "listen": f"fd:{number}", **settings}
        with service_process("facade", folder / "facade.log", descriptors=(number,), settings=chosen) as process:
            yield process, origin


async def place_at(inner: Inner, facade: RunningFacade, origin: str) -> Place:
    """Make a repository, and reach it by the facade at `origin`."""
    there = await new_place(facade, inner)
    there.facade = RunningFacade(origin, facade.settings, facade.stop, facade.served)
    return there


async def draining(http: httpx.AsyncClient, origin: str) -> httpx.Response:
    """Return what a facade says of itself right after its signal, on a connection that is open."""
    async with asyncio.timeout(STEP_SECONDS):
        while True:
            answer = await http.get(f"{origin}/readyz")
            if answer.status_code == 503:
                assert answer.json()["status"] == "draining"
                return answer
