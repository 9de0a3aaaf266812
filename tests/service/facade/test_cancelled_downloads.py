"""Downloads that the client gives up: the log says so, and nothing is an error of ours."""

import asyncio
import json
import socket
import ssl
import struct
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests.service.facade import raw
from tests.service.facade.conftest import Inner
from tests.service.facade.own_process import facade_process, place_at
from tests.support.certificates import write_certificate
from tests.support.facade import RunningFacade
from tests.support.http import Action, Client, content
from tests.support.service_process import wait_ready
from tests.support.waiting import STEP_SECONDS, until

MIB = 1024**2
# The end of the connection is a reset, as where a client is killed.
_LINGER_ZERO = struct.pack("ii", 1, 0)


def _give_up(address: tuple[str, int], action: Action, count: int, context: ssl.SSLContext | None) -> None:
    """Read so many bytes of an answer, and reset the connection."""
    connection = socket.create_connection(address, STEP_SECONDS)
    if context is not None:
        connection = context.wrap_socket(connection, server_hostname="localhost")
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _LINGER_ZERO)
    with connection:
        connection.sendall(raw.head(action, "GET"))
        while count > 0:
            received = connection.recv(min(count, MIB))
            assert received
            count -= len(received)


@pytest.mark.parametrize(("way", "downloads"), [("shared disk", 30), ("storage", 6), ("https", 6)])
async def test_a_download_that_is_given_up_is_no_error(
    inner: Inner, facade: RunningFacade, tmp_path: Path, way: str, downloads: int
) -> None:
    """At whatever byte, and however the bytes go: one line at the level info, that says who has cancelled it."""
    data = content(f"given up {way}", 40 * MIB)
    settings: dict[str, object] = {"shared_storage_path": inner.storage.root} if way == "shared disk" else {}
    context: ssl.SSLContext | None = None
    if way == "https":
        files = write_certificate(tmp_path / "tls", "localhost", "127.0.0.1")
        context = ssl.create_default_context(cafile=str(files.authority))
        settings = {"https_certificate": files.chain, "https_key": files.key}
    with facade_process(inner, tmp_path, **settings) as (_, plain):
        origin = plain.replace("http:", "https:") if context else plain
        await wait_ready(origin, verify=context or True)
        place = await place_at(inner, facade, origin)
        await inner.storage.write(place.repository_id, data)
        async with Client(place.base_url, "alice", inner.tokens["alice"], verify=context or True) as alice:
            action = await alice.offered("download", data)
        address = place.facade.address
        counts = [1 + number * MIB // 3 for number in range(downloads)]
        # Storage reads in the threads of the loop, which these would take.
        with ThreadPoolExecutor(downloads) as clients:
            waiting = [clients.submit(_give_up, address, action, count, context) for count in counts]
            await asyncio.gather(*map(asyncio.wrap_future, waiting))
        log = tmp_path / "facade.log"

        def lines() -> list[dict[str, Any]]:
            return [json.loads(line) for line in log.read_text().splitlines()]

        def ended() -> list[dict[str, Any]]:
            return [line for line in lines() if line.get("operation") == "download"]

        await until(lambda: len(ended()) == downloads)
    assert {(line["level"], line["status"], line.get("cancelled_by")) for line in ended()} == {("info", 200, "client")}
    # A machine under load may answer too late what is asked about accesses meanwhile.
    told = [line for line in lines() if line["event"] != "changes of access are not known"]
    assert [line for line in told if line["level"] != "info"] == []
