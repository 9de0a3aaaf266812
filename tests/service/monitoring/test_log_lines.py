"""The log lines of the three services, as processes: one for each request or call, and no secret in any."""

import base64
from contextlib import suppress
from typing import Any

import asyncpg
import grpc
import httpx
import pytest
from towpath.access.v1 import access_service_pb2 as access
from towpath.access.v1.access_service_pb2_grpc import AccessServiceStub
from towpath.access.v1.admin_service_pb2 import ListUsersRequest
from towpath.access.v1.admin_service_pb2_grpc import AdminServiceStub

from tests.support.http import content, oid_of
from tests.support.services import METRICS_TOKEN, REPOSITORY, SERVICE_SECRET, SERVICES, SIGNING_KEY, Services
from tests.support.waiting import STEP_SECONDS

WRONG = "tp_credentials-that-nobody-has"


def _of(services: Services, request_id: str) -> dict[str, list[dict[str, Any]]]:
    """Return the lines with this request id that say that a request or call has ended."""
    return {
        service: [
            line
            for line in services.lines(service)
            if line.get("request_id") == request_id and line["event"] in ("request", "call")
        ]
        for service in SERVICES
    }


def _told(line: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in line.items() if name not in ("timestamp", "seconds", "level")}


async def test_an_upload_is_told_once_in_each_service_it_passed(services: Services) -> None:
    """By its id: who, where, what, how many, how much, how long, and how it ended (trap-34)."""
    data = content("told", 2_000)
    async with services.client("alice") as alice:
        action = await alice.offered("upload", data)
        alice.http.headers["X-Request-Id"] = "told-upload"
        assert (await alice.put(action, data, len(data))).status_code == 200
        alice.http.headers["X-Request-Id"] = "told-download"
        assert (await alice.download(oid_of(data), len(data))).status_code == 200
    await services.idle()
    (facade,), (storage,) = (_of(services, "told-upload")[name] for name in ("facade", "storage"))
    assert _told(facade) == {
        "service": "facade",
        "event": "request",
        "request_id": "told-upload",
        "operation": "upload",
        "method": "PUT",
        "path": f"/{REPOSITORY}/objects/{oid_of(data)}",
        "repository": REPOSITORY,
        "user": "alice",
        "client": "127.0.0.1",
        "objects": 1,
        "bytes_in": 2_000,
        "bytes_out": 0,
        "status": 200,
    }
    assert _told(storage) == {
        "service": "storage",
        "event": "call",
        "request_id": "told-upload",
        "method": "/towpath.storage.v1.StorageService/WriteWholeObject",
        "repository_id": 1,
        "user_id": 2,
        "oid": oid_of(data),
        "objects": 1,
        "bytes_in": 2_000,
        "status": "OK",
    }
    assert 0 < storage["seconds"] <= facade["seconds"]
    (read,) = [line for line in _of(services, "told-download")["storage"] if line["method"].endswith("ReadObject")]
    assert (read["bytes_out"], read["oid"]) == (2_000, oid_of(data))


async def test_a_batch_and_a_lock_are_told_in_all_services(services: Services) -> None:
    """An operator must see the number of objects, the user whom the token identified, and the reason of a refusal."""
    entries = [(oid_of(content(f"batch {number}", 10)), 10) for number in range(3)]
    async with services.client("alice") as alice:
        alice.http.headers["X-Request-Id"] = "told-batch"
        assert (await alice.batch("download", *entries)).status_code == 200
        alice.http.headers["X-Request-Id"] = "told-lock"
        assert (await alice.lock("told.psd")).status_code == 201
        alice.http.headers["X-Request-Id"] = "told-conflict"
        assert (await alice.lock("told.psd")).status_code == 409
    await services.idle()
    batch = _of(services, "told-batch")
    (line,) = batch["facade"]
    assert (line["operation"], line["direction"], line["objects"]) == ("batch", "download", 3)
    (line,) = batch["storage"]
    assert (line["repository_id"], line["objects"], line["status"]) == (1, 3, "OK")
    # The facade remembers both from whichever request was the first.
    asked = [line for line in services.lines("locks") if line["event"] == "call" and line["status"] == "OK"]
    assert {line["user"] for line in asked if line["method"].endswith("/Authenticate")} >= {"alice"}
    checked = [line for line in asked if line["method"].endswith("/CheckAccess")]
    assert (REPOSITORY, 1 + 1) in [(line["repository"], line["user_id"]) for line in checked]
    created = _of(services, "told-lock")["locks"][-1]
    assert (created["method"], created["repository_id"]) == ("/towpath.locks.v1.LockService/CreateLock", 1)
    refused = _of(services, "told-conflict")["locks"][-1]
    assert (refused["status"], refused["reason"]) == ("ALREADY_EXISTS", "PATH_LOCKED")


async def _misuse(services: Services) -> list[str]:
    """Do what fails in every way with every kind of secret; return the secrets that were shown."""
    token = services.tokens["alice"]
    basic = base64.b64encode(f"alice:{token}".encode()).decode()
    async with httpx.AsyncClient(
        trust_env=False, timeout=STEP_SECONDS, base_url=f"{services.origin}/{REPOSITORY}"
    ) as http:
        for header in (f"Basic {basic}", f"Bearer {token}", f"Bearer {WRONG}", f"RemoteAuth {token}"):
            for path in ("/locks", f"/locks?token={WRONG}&path={WRONG}", "/objects/batch", "/nothing"):
                await http.get(path, headers={"Authorization": header})
            for body in (f'{{"operation": "{WRONG}"}}', f'{{"token": "{token}"', f'{{"path": "{WRONG}", "ref": 1}}'):
                for path in ("/objects/batch", "/locks"):
                    await http.post(
                        path,
                        content=body,
                        headers={"Authorization": header, "Content-Type": "application/vnd.blob+json"},
                    )
    async with services.client("alice") as alice:
        data = content("misuse", 100)
        action = await alice.offered("upload", data)
        assert (await alice.put(action, b"x" * 100, 100)).status_code == 400
        wrong = action.header["X-Towpath-Token"][:-1] + "_"
        assert (await alice.http.put(action.href, content=data, headers={"X-Towpath-Token": wrong})).status_code == 403
    return [token, basic, WRONG, action.header["X-Towpath-Token"]]


async def _misuse_inside(services: Services) -> None:
    address = f"unix:{services.folder / 'locks'}.process"
    async with grpc.aio.insecure_channel(address) as channel:
        shown = (("authorization", f"Bearer {SERVICE_SECRET}"),)
        with pytest.raises(grpc.aio.AioRpcError, match="UNAUTHENTICATED"):
            await AccessServiceStub(channel).Authenticate(access.AuthenticateRequest(token=WRONG), metadata=shown)
        for token in (WRONG, services.tokens["alice"], services.tokens["admin"]):
            metadata = (("authorization", f"Bearer {token}"),)
            with suppress(grpc.aio.AioRpcError):
                await AdminServiceStub(channel).ListUsers(ListUsersRequest(), metadata=metadata)


async def _break_storage(services: Services) -> None:
    """Let a call fail in a way that is not foreseen, with a traceback in the log: a table is not there."""
    data = content("broken", 100)
    async with services.client("alice") as alice:
        assert (await alice.upload(data)).status_code == 200
        action = await alice.offered("download", data)
        database = await asyncpg.connect(services.database_url.get_secret_value())
        try:
            await database.execute("ALTER TABLE storage.contents RENAME TO hidden")
            alice.http.headers["X-Request-Id"] = "told-traceback"
            response = await alice.http.get(action.href, headers=action.header)
            await database.execute("ALTER TABLE storage.hidden RENAME TO contents")
        finally:
            await database.close()
        assert response.status_code == 500
        assert "contents" not in response.text


async def test_no_secret_is_in_any_line(services: Services) -> None:
    """Neither on success nor on failure, nor in a traceback; every line is JSON (trap-29)."""
    shown = await _misuse(services)
    await _misuse_inside(services)
    await _break_storage(services)
    await services.idle()
    (failed,) = [line for line in services.lines("storage") if line["event"] == "call failed"]
    assert failed["request_id"] == "told-traceback"
    assert failed["exception"]
    secrets = [*shown, *services.tokens.values(), SERVICE_SECRET, METRICS_TOKEN, SIGNING_KEY]
    for service in SERVICES:
        assert services.lines(service)
        written = services.log(service)
        for secret in (*secrets, "Bearer ", "Basic ", "?token", "authorization", "Authorization"):
            assert secret not in written, service
