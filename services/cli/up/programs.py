"""The programs that `towpath up` runs: how Postgres and the services are started, and known to answer."""

import asyncio
import sys
from collections.abc import Mapping, Sequence

from services.cli.embedded_postgres import ENVIRONMENT, STOP_SIGNAL, EmbeddedPostgres
from services.cli.errors import CommandError
from services.cli.up.child import Program, Work, nothing, run_once
from services.common.health import probe_http

_MIGRATION_SECONDS = 900.0
_BOOTSTRAP_SECONDS = 300.0
_PROBE_INTERVAL_SECONDS = 0.05


def python(module: str, *arguments: str) -> list[str]:
    """Return the command that runs a module of ours; a `services` folder where the operator stands is not found."""
    return [sys.executable, "-P", "-m", module, *arguments]


def postgres(cluster: EmbeddedPostgres, *, hang_seconds: float = 0.0) -> Program:
    """Return the program of our own Postgres, which may be silent for `hang_seconds`."""
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
    """Return the program of the service `storage`, `locks` or `facade`, which may be silent for `hang_seconds`."""
    return Program(
        name=name,
        command=python(f"services.{name}"),
        environment=environment,
        inherited=inherited,
        tells_why=True,
        ready=ready,
        hang_seconds=hang_seconds,
    )


async def migrate(
    name: str, environment: Mapping[str, str], inherited: Sequence[int] = (), *, wait_seconds: float = 0.0
) -> str:
    """Bring the tables of the service `storage` or `locks` to their newest version, and return in a line how they are.

    Tables that are newer than that stay as they are. Postgres may take `wait_seconds` to answer. Raises `CommandError`.
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
    """Make the administrator and return the token. Raises `CommandError`."""
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
    """Wait until `/readyz` of the facade answers 200, however long that takes."""
    # Whether it will ever answer is known to the one who watches over its process.
    while await asyncio.to_thread(probe_http, f"{origin}/readyz") != "200":  # noqa: ASYNC110 - it is another process
        await asyncio.sleep(_PROBE_INTERVAL_SECONDS)
