"""A primary that is lost and a standby that takes its place, as docs/scaling.md has the services find it."""

import asyncio
import subprocess
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path

from pydantic import SecretStr

from services.cli.embedded_postgres import DATABASE, STOP_SIGNAL, SUPERUSER, EmbeddedPostgres, programs
from services.cli.unprivileged.account import OURSELVES, RunAs
from services.database.migrations import migrate
from services.storage.index.schema import SCHEMA
from tests.support.folders import temporary_folder
from tests.support.ports import free_ports
from tests.support.postgres import new_cluster
from tests.support.storage import running_storage
from tests.support.waiting import STEP_SECONDS, until


@asynccontextmanager
async def _running(postgres: EmbeddedPostgres, port: int, log: Path) -> AsyncIterator[asyncio.subprocess.Process]:
    with log.open("wb") as out:
        server = await asyncio.create_subprocess_exec(
            *postgres.run_as.command([*postgres.command(), "--listen_addresses=127.0.0.1", f"--port={port}"]),
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=out,
        )
    try:
        yield server
    finally:
        if server.returncode is None:
            server.send_signal(STOP_SIGNAL)
            await asyncio.wait_for(server.wait(), timeout=STEP_SECONDS)


async def _run(run_as: RunAs, program: Path, *arguments: str) -> str:
    process = await asyncio.create_subprocess_exec(
        *run_as.command([str(program), *arguments]), stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    output, _ = await asyncio.wait_for(process.communicate(), timeout=STEP_SECONDS)
    assert process.returncode == 0, output.decode()
    return output.decode().strip()


async def _psql(port: int, statement: str, *, database: str = DATABASE) -> str:
    return await _run(
        OURSELVES, programs() / "psql", "--host=127.0.0.1", f"--port={port}", f"--username={SUPERUSER}", "--no-psqlrc",
        "--tuples-only", "--no-align", f"--command={statement}", database,
    )  # fmt: skip


async def _until(port: int, question: str, *, database: str = DATABASE) -> None:
    """Wait until a server answers a question with t."""

    async def is_so() -> bool:
        with suppress(AssertionError):
            return await _psql(port, question, database=database) == "t"
        return False

    await until(is_so, question)


async def test_the_services_find_the_new_primary(tmp_path: Path) -> None:
    """With both hosts in the URL: what was committed is there, and new objects are written, within the usual wait."""
    ports = free_ports(2)
    hosts = "&".join(f"host=127.0.0.1:{port}" for port in ports)
    url = SecretStr(f"postgresql://{SUPERUSER}@/{DATABASE}?{hosts}&target_session_attrs=primary")
    async with AsyncExitStack() as stack:
        folder = stack.enter_context(temporary_folder())
        first, second = (new_cluster(folder / name) for name in ("first", "second"))
        await first.prepare()
        primary = await stack.enter_async_context(_running(first, ports[0], tmp_path / "first.log"))
        await _until(ports[0], "SELECT true", database="postgres")
        await _psql(ports[0], f"CREATE DATABASE {DATABASE}", database="postgres")
        source = f"--dbname=host=127.0.0.1 port={ports[0]} user={SUPERUSER}"
        await _run(
            second.run_as,
            Path(second.command()[0]).with_name("pg_basebackup"),
            source,
            f"--pgdata={second.data}",
            "--write-recovery-conf",
            "--checkpoint=fast",
        )
        await stack.enter_async_context(_running(second, ports[1], tmp_path / "second.log"))
        await _until(ports[0], "SELECT count(*) = 1 FROM pg_stat_replication")
        await migrate(url, SCHEMA)
        storage = await stack.enter_async_context(running_storage(url, tmp_path))
        before = await storage.write(1, b"before")
        await _until(ports[0], "SELECT replay_lsn >= pg_current_wal_lsn() FROM pg_stat_replication")
        primary.send_signal(STOP_SIGNAL)
        await primary.wait()
        assert await _psql(ports[1], "SELECT pg_promote()") == "t"
        after = await storage.write(1, b"after")
        assert await storage.read(1, before) == b"before"
        assert await storage.read(1, after) == b"after"
