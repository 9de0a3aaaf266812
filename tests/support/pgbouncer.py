"""PgBouncer as docs/operations.md configures it, on a loopback port, before a real Postgres."""

import asyncio
import secrets
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from pydantic import SecretStr
from sqlalchemy.engine import make_url

from services.cli.embedded_postgres import SUPERUSER, EmbeddedPostgres
from services.cli.unprivileged.account import RunAs
from services.cli.unprivileged.ownership import give
from tests.support.folders import temporary_folder
from tests.support.ports import free_ports
from tests.support.programs import needed
from tests.support.snippets import replaced, snippet
from tests.support.waiting import STEP_SECONDS, until


@dataclass
class PgBouncer:
    """A PgBouncer that can be stopped and started again."""

    folder: Path
    run_as: RunAs
    port: int
    password: str = field(default_factory=secrets.token_hex, repr=False)
    process: asyncio.subprocess.Process | None = None

    def url(self, direct: SecretStr) -> SecretStr:
        """Return the URL by which a database of the URL given is reached through it."""
        name = make_url(direct.get_secret_value()).database
        return SecretStr(f"postgresql://{SUPERUSER}:{self.password}@127.0.0.1:{self.port}/{name}")

    def configure(self, sockets: Path, mode: str, *lines: str) -> None:
        """Write its configuration: the mode of its pools, and more lines of settings."""
        (self.folder / "users").write_text(f'"{SUPERUSER}" "{self.password}"\n')
        text = replaced(
            snippet("operations.md", "pgbouncer"),
            ("towpath = host=127.0.0.1 port=5432", f"* = host={sockets} port=5432"),
            ("listen_port = 6432", f"listen_port = {self.port}\nunix_socket_dir ="),
            ("/etc/pgbouncer/userlist.txt", str(self.folder / "users")),
            ("pool_mode = session", f"pool_mode = {mode}"),
        )
        (self.folder / "pgbouncer.ini").write_text("\n".join((text, *lines, "")))

    async def start(self) -> None:
        """Start it, and wait until it listens."""
        # As the account of Postgres, where there is one: it refuses to be root's.
        command = self.run_as.command([needed("pgbouncer"), str(self.folder / "pgbouncer.ini")])
        with (self.folder / "log").open("ab") as log:
            self.process = await asyncio.create_subprocess_exec(
                *command, stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )
        await until(self._listens, "PgBouncer listens")

    async def _listens(self) -> bool:
        assert self.process is not None
        assert self.process.returncode is None, (self.folder / "log").read_text()
        try:
            _, writer = await asyncio.open_connection("127.0.0.1", self.port)
        except ConnectionRefusedError:
            return False
        writer.close()
        return True

    async def stop(self) -> None:
        """End it at once, with all connections, if it runs."""
        if self.process is not None and self.process.returncode is None:
            self.process.terminate()
            await asyncio.wait_for(self.process.wait(), STEP_SECONDS)


@asynccontextmanager
async def running_pgbouncer(
    postgres: EmbeddedPostgres, *lines: str, mode: str = "session", sockets: Path | None = None
) -> AsyncIterator[PgBouncer]:
    """Run one before a Postgres, with more lines of settings; it is looked for at `sockets` where they are given."""
    with temporary_folder() as folder:
        [port] = free_ports(1)
        pgbouncer = PgBouncer(folder, postgres.run_as, port)
        pgbouncer.configure(sockets or postgres.sockets, mode, *lines)
        if postgres.run_as.account is not None:
            give(folder, postgres.run_as.account)
        try:
            await pgbouncer.start()
            yield pgbouncer
        finally:
            await pgbouncer.stop()
