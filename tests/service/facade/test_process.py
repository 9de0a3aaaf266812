"""The facade as its own process, in front of the inner services as theirs."""

import asyncio
import json
import os
import signal
import socket
from pathlib import Path
from typing import Any

import psutil
from towpath.access.v1 import admin_service_pb2 as admin

from services.facade.server.http_server import listening_socket
from tests.support.http import Client, content, oid_of
from tests.support.locks import running_locks
from tests.support.postgres import TestPostgres
from tests.support.service_process import service_process, wait_ready
from tests.support.waiting import STEP_SECONDS, until

SIGNING_KEY = "a key that signs nothing outside of this test"


def _lines(log: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in log.read_text().splitlines()]


async def test_a_request_is_found_in_the_logs_of_all_services_and_no_secret_is(
    postgres: TestPostgres, tmp_path: Path
) -> None:
    """By the id that the client was told (trap-34); the process takes an inherited socket, and stops on SIGTERM."""
    database_url = await postgres.create_database()
    async with running_locks(database_url, tmp_path) as locks:
        await locks.add_user("alice")
        token = await locks.add_token("alice")
        await locks.add_repository("demo/assets")
        await locks.grant("alice", "demo/assets", admin.ROLE_WRITE)
    url = database_url.get_secret_value()
    addresses = {name: f"unix:{tmp_path / name}.process" for name in ("storage", "locks")}
    logs = {name: tmp_path / f"{name}.log" for name in ("storage", "locks", "facade")}
    data = content("process", 1_000)
    storage = {"storage_listen": addresses["storage"], "storage_database_url": url}
    storage["storage_url"] = (tmp_path / "bytes").as_uri()
    lock_settings = {"locks_listen": addresses["locks"], "locks_database_url": url}
    lock_settings["storage_address"] = addresses["storage"]
    own = {f"{name}_address": address for name, address in addresses.items()}
    with listening_socket("127.0.0.1:0") as listener:
        number = listener.fileno()
        origin = f"http://127.0.0.1:{listener.getsockname()[1]}"
        with (
            service_process("storage", logs["storage"], settings=storage),
            service_process("locks", logs["locks"], settings=lock_settings),
            service_process(
                "facade",
                logs["facade"],
                descriptors=(number,),
                settings={**own, "listen": f"fd:{number}", "signing_key": SIGNING_KEY},
            ) as process,
        ):
            await wait_ready(origin)
            async with Client(f"{origin}/demo/assets", "alice", token) as alice:
                alice.http.headers["X-Request-Id"] = "id-of-the-batch"
                action = await alice.offered("upload", data)
                alice.http.headers["X-Request-Id"] = "id-of-the-upload"
                assert (await alice.put(action, data, len(data))).status_code == 200
                alice.http.headers["X-Request-Id"] = "id-of-the-refusal"
                refused = await alice.post("objects/batch", operation="upload", objects=[{"oid": token}])
                assert refused.status_code == 422
                process.send_signal(signal.SIGTERM)
                assert await asyncio.to_thread(process.wait, STEP_SECONDS) == 0
    found = {name: {line.get("request_id") for line in _lines(log)} for name, log in logs.items()}
    assert {"id-of-the-batch", "id-of-the-upload"} <= found["facade"] & found["storage"]
    assert "id-of-the-refusal" in found["facade"]
    # Whose token it is was remembered by the time of the refusal.
    assert "id-of-the-batch" in found["locks"]
    (line,) = [line for line in _lines(logs["facade"]) if line.get("request_id") == "id-of-the-upload"]
    assert line["event"] == "request"
    told = {name: line[name] for name in ("method", "path", "status", "user", "repository", "operation", "objects")}
    assert told == {
        "method": "PUT",
        "path": f"/demo/assets/objects/{oid_of(data)}",
        "status": 200,
        "user": "alice",
        "repository": "demo/assets",
        "operation": "upload",
        "objects": 1,
    }
    assert (line["bytes_in"], line["bytes_out"]) == (1_000, 0)
    assert line["seconds"] > 0
    for log in logs.values():
        text = log.read_text()
        for secret in (token, SIGNING_KEY, action.header["X-Towpath-Token"]):
            assert secret not in text


def _needed(folder: Path) -> dict[str, str]:
    address = f"unix:{folder / 'nobody'}"
    return {"storage_address": address, "locks_address": address, "signing_key": SIGNING_KEY, "listen": "127.0.0.1:0"}


async def test_the_process_ends_with_the_one_that_started_it(tmp_path: Path) -> None:
    """It holds the reading end of a pipe; the other end closes however its parent dies."""
    reading, writing = os.pipe()
    settings = {**_needed(tmp_path), "lifeline_fd": str(reading)}
    with service_process("facade", tmp_path / "log", descriptors=(reading,), settings=settings) as ours:
        os.close(reading)
        await until(lambda: bool(psutil.Process(ours.pid).net_connections(kind="tcp")))
        os.close(writing)
        assert await asyncio.to_thread(ours.wait, STEP_SECONDS) == 0


async def test_a_bad_setting_is_told_without_the_secret(tmp_path: Path) -> None:
    """In one message, with the name of the setting (trap-29)."""
    log = tmp_path / "log"
    with service_process("facade", log, settings={**_needed(tmp_path), "signing_key": "too-short"}) as process:
        assert await asyncio.to_thread(process.wait, STEP_SECONDS) == 1
    assert "TOWPATH_SIGNING_KEY: " in log.read_text()
    assert "too-short" not in log.read_text()


async def test_an_address_that_cannot_be_had_ends_theservice_process(tmp_path: Path) -> None:
    """With a status that says so."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        settings = {**_needed(tmp_path), "listen": f"127.0.0.1:{taken.getsockname()[1]}"}
        with service_process("facade", tmp_path / "log", settings=settings) as process:
            assert await asyncio.to_thread(process.wait, STEP_SECONDS) != 0
