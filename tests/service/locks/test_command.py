"""`python -m services.locks`, as a process."""

import asyncio
import os
import signal
import sys
from pathlib import Path

import pytest
from pydantic import SecretStr
from towpath.access.v1 import access_service_pb2 as access
from towpath.access.v1.access_service_pb2_grpc import AccessServiceStub

from services.common.errors import Reason, Unauthenticated
from services.common.rpc.client import ServiceClient
from tests.support.health import wait_serving
from tests.support.locks import refused
from tests.support.waiting import STEP_SECONDS


async def _run(environment: dict[str, str], command: str) -> tuple[int | None, str, str]:
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "services.locks",
        command,
        env={**os.environ, **environment},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    output, errors = await asyncio.wait_for(process.communicate(), STEP_SECONDS)
    return process.returncode, output.decode(), errors.decode()


@pytest.mark.empty_database
async def test_migrate_bootstrap_serve(database_url: SecretStr, tmp_path: Path) -> None:
    """Migrations, the first administrator's token, the service; SIGTERM ends it with status 0."""
    environment = {"TOWPATH_LOCKS_DATABASE_URL": database_url.get_secret_value()}
    assert (await _run(environment, "migrate"))[0] == 0
    status, first, _ = await _run(environment, "bootstrap")
    assert status == 0
    status, second, _ = await _run(environment, "bootstrap")
    assert status == 0
    assert first != second
    address = f"unix:{tmp_path}/locks.sock"
    environment |= {"TOWPATH_LOCKS_LISTEN": address, "TOWPATH_STORAGE_ADDRESS": f"unix:{tmp_path}/storage.sock"}
    server = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "services.locks", env={**os.environ, **environment}, stdout=asyncio.subprocess.DEVNULL
    )
    peer = ServiceClient(address, deadline=STEP_SECONDS)
    try:
        await wait_serving(peer.channel)
        stub = AccessServiceStub(peer.channel)
        answer = await peer.call(stub.Authenticate, access.AuthenticateRequest(token=second.strip()))
        assert answer.user_name == "admin"
        # The token of the first call has been replaced.
        with refused(Unauthenticated, Reason.BAD_CREDENTIALS):
            await peer.call(stub.Authenticate, access.AuthenticateRequest(token=first.strip()))
    finally:
        await peer.close()
        server.send_signal(signal.SIGTERM)
        status = await asyncio.wait_for(server.wait(), STEP_SECONDS)
    assert status == 0


async def test_a_missing_setting_is_named(database_url: SecretStr) -> None:
    """An operator must see a wrong setting in words, without the password of the database."""
    url = database_url.get_secret_value().replace("@", ":hush@")
    status, output, errors = await _run({"TOWPATH_LOCKS_DATABASE_URL": url}, "serve")
    assert (status, output) == (1, "")
    assert "TOWPATH_LOCKS_LISTEN: field required" in errors
    assert "hush" not in errors
    assert "Traceback" not in errors


async def test_an_address_that_others_reach_needs_the_secret(database_url: SecretStr) -> None:
    """Nothing listens on the network without the secret between services (: there is no default; trap-29)."""
    environment = {
        "TOWPATH_LOCKS_DATABASE_URL": database_url.get_secret_value(),
        "TOWPATH_LOCKS_LISTEN": "127.0.0.1:0",
        "TOWPATH_STORAGE_ADDRESS": "127.0.0.1:1",
    }
    status, _, errors = await _run(environment, "serve")
    assert status == 1
    assert "service_secret" in errors
