"""Programs that `towpath up` runs: the commands and the readiness checks of Postgres and the services."""

import asyncio
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from services.cli.embedded_postgres import ENVIRONMENT, STOP_SIGNAL, EmbeddedPostgres
from services.cli.errors import CommandError
from services.cli.processes import run_once
from services.cli.up.child import Program, Work, nothing
from services.common.health import probe_http
from services.common.migration_versions import newest_version

_MIGRATION_SECONDS = 900.0
_BOOTSTRAP_SECONDS = 300.0
_PROBE_INTERVAL_SECONDS = 0.05
_SERVICES = Path(__file__).parents[2]
_SCHEMAS = ("storage", "locks")


def python(module: str, *arguments: str) -> list[str]:
    """Return the command that runs a module of Towpath; `-P` hides a `services` folder in the working directory."""
    return [sys.executable, "-P", "-m", module, *arguments]


def postgres(cluster: EmbeddedPostgres, *, hang_seconds: float = 0.0) -> Program:
    """Return the program of the embedded Postgres; it is killed if it is silent for `hang_seconds` (0 for never)."""
    return Program(
        name="postgres",
        command=cluster.command(),
        environment=ENVIRONMENT,
        run_as=cluster.run_as,
        stop_signal=STOP_SIGNAL,
        prepare=cluster.prepare,
        ready=cluster.wait_ready,
        hang_seconds=hang_seconds,
        answers=cluster.answers,
    )


def service(
    name: str,
    environment: Mapping[str, str],
    inherited: Sequence[int],
    *,
    hang_seconds: float,
    ready: Work = nothing,
) -> Program:
    """Return the program of a service: `storage`, `locks`, `facade`, `ssh` or `cache`; see `postgres`."""
    return Program(
        name=name,
        command=python(f"services.{name}"),
        environment=environment,
        inherited=inherited,
        tells_why=True,
        ready=ready,
        hang_seconds=hang_seconds,
    )


async def tables_are_newest(cluster: EmbeddedPostgres) -> bool:
    """Return whether the tables of all services are at their newest version; the cluster must answer.

    The check is fast, unlike `migrate`: Alembic takes a second, and most starts have nothing to migrate.
    """
    newest = [newest_version(_SERVICES / schema / "migrations" / "versions") for schema in _SCHEMAS]
    return await cluster.versions_of(_SCHEMAS) == newest


async def migrate(
    name: str, environment: Mapping[str, str], inherited: Sequence[int] = (), *, wait_seconds: float = 0.0
) -> str:
    """Migrate the tables of the service `storage` or `locks` to their newest version, and return a line about them.

    Tables of a newer Towpath stay unchanged. Postgres may take `wait_seconds` to answer. Raises `CommandError`.
    """
    log, note = await run_once(
        f"the migration of {name}",
        python(f"services.{name}", "migrate", f"--wait={wait_seconds}"),
        environment,
        inherited=inherited,
        seconds=_MIGRATION_SECONDS,
    )
    sys.stderr.write(log)
    return f"{name}: {note or 'the tables are at their newest version'}"


async def bootstrap(environment: Mapping[str, str], inherited: Sequence[int] = ()) -> str:
    """Create the administrator and return the administrator's token. Raises `CommandError`."""
    output, _ = await run_once(
        "the making of the administrator",
        python("services.locks", "bootstrap"),
        environment,
        inherited=inherited,
        seconds=_BOOTSTRAP_SECONDS,
    )
    token = output.strip()
    if not token or len(token.split()) != 1:
        raise CommandError("the making of the administrator printed something other than a token")
    return token


async def wait_until_ready(origin: str) -> None:
    """Wait until `/readyz` of the facade answers 200, without a timeout."""
    # No timeout: `Child` watches the facade's process, and cancels this when the process ends.
    while await asyncio.to_thread(probe_http, f"{origin}/readyz") != "200":  # noqa: ASYNC110 - it is another process
        await asyncio.sleep(_PROBE_INTERVAL_SECONDS)
