"""`towpath up` of one version on a data folder whose tables a newer version has migrated."""

import asyncio
import time
from pathlib import Path

import httpx
import pytest
from pydantic import SecretStr

from services.cli.embedded_postgres import EmbeddedPostgres
from services.cli.up.runtime_directory import runtime_directory
from services.common.migration_versions import newest_version
from services.locks.models import SCHEMA as LOCKS
from services.storage.index.schema import SCHEMA as STORAGE
from tests.support.commands import finished
from tests.support.http import Client
from tests.support.newer_tables import migrate_later
from tests.support.service_process import wait_ready
from tests.support.stack import TOWPATH, running_stack
from tests.support.waiting import STEP_SECONDS


@pytest.mark.drill
async def test_an_older_version_on_newer_tables(tmp_path: Path) -> None:
    """It serves on while they are migrated, starts again afterwards and says so, until they need a newer one."""
    with running_stack("--demo") as stack:
        url = SecretStr(EmbeddedPostgres(stack.data / "postgres", runtime_directory(stack.data)).url)
        await migrate_later(url, STORAGE, tmp_path / "storage")
        later = await migrate_later(url, LOCKS, tmp_path / "locks")
        async with httpx.AsyncClient(base_url=stack.origin, trust_env=False, timeout=STEP_SECONDS) as http:
            # The services look at their tables once a second.
            end = time.monotonic() + 4
            while time.monotonic() < end:
                assert (await http.get("/readyz")).status_code == 200
        assert stack.stop() == 0
        assert "not serving" not in stack.log()
        logged = len(stack.log())
        stack.start()
        said = [line for line in stack.log()[logged:].splitlines() if "newer than" in line]
        assert len(said) == 2
        for schema in (STORAGE, LOCKS):
            assert any(f"{schema.name}: the tables are at version" in line for line in said)
        assert "Traceback" not in stack.log()
        async with Client(stack.base_url, "alice", stack.tokens["alice"]) as client:
            assert (await client.lock("a.bin")).status_code == 201
        await migrate_later(url, later, later.versions, constants='CONTRACTS = "nobody needs it"\n')
        # The services say that they cannot use the tables.
        await wait_ready(stack.origin, 503)
        assert stack.stop() == 0
        command = [*TOWPATH, "up", "--data", str(stack.data), "--listen", "127.0.0.1:0"]
        result = await asyncio.to_thread(finished, command)
        assert result.returncode == 1
        why = [line for line in result.stderr.splitlines() if "the schema locks is at version" in line]
        assert why == [result.stderr.splitlines()[-1]]
        assert f"this Towpath knows it up to {newest_version(LOCKS.versions)}: start a newer one" in why[0]
        assert "Traceback" not in result.stderr
