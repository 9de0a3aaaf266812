"""Where everything lies: in a data folder, with or without a `towpath up` on it, or where the environment says."""

import os
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path

from services.cli.backup.program import Outcome, run_program
from services.cli.embedded_postgres import EmbeddedPostgres
from services.cli.errors import CommandError
from services.cli.up import programs
from services.cli.up.data_directory import DataDirectory, FolderTaken, storage_url_of
from services.cli.up.orphans import lock_out_orphans
from services.cli.up.runtime_directory import POSTGRES_SOCKET, runtime_directory
from services.cli.up.supervisor import Supervisor
from services.common.lifecycle import stop_event

_POSTGRES_STOP_SECONDS = 20.0


async def run_on_environment(arguments: list[str]) -> Outcome:
    """Run the program on the database and the bytes that the environment's settings name."""
    return await run_program(arguments, os.environ)


async def run_on_data(data: Path, arguments: list[str], *, new: bool = False, storage: str | None = None) -> Outcome:
    """Run the program on a data folder; Postgres is started for the while where no `towpath up` runs on it.

    `data` is an absolute path without symbolic links. With `new` the folder may be missing, and no `towpath up` may
    run; its bytes go to the URL `storage`, where one is given. Raises `CommandError`.
    """
    # The folder of the bytes may be gone, when all of them have moved to another store.
    if not new and not (data / "lock").is_file():
        raise CommandError(f"{data}: no data of a `towpath up`; give --data")
    with ExitStack() as owned:
        try:
            directory = owned.enter_context(DataDirectory.open(data))
        except FolderTaken:
            if new:
                raise
            sockets = runtime_directory(data)
            if not (sockets / POSTGRES_SOCKET).exists():
                raise CommandError(_no_cluster(data)) from None
            cluster = EmbeddedPostgres(data / "postgres", sockets)
            return await run_program(arguments, _environment(cluster, storage_url_of(data)))
        if not new and not directory.postgres.exists():
            raise CommandError(_no_cluster(data))
        if new:
            directory.storage_url(storage)
        return await _with_postgres(directory, arguments, owned)


def _no_cluster(data: Path) -> str:
    return (
        f"{data}: no Postgres of its own runs there; set TOWPATH_STORAGE_DATABASE_URL to the database "
        f"and TOWPATH_STORAGE_URL to {storage_url_of(data)} instead of --data"
    )


async def _with_postgres(directory: DataDirectory, arguments: list[str], owned: ExitStack) -> Outcome:
    stop = stop_event(None)
    cluster = EmbeddedPostgres(directory.postgres, directory.run)
    supervisor = Supervisor()
    outcome: Outcome | None = None

    async def work() -> None:
        nonlocal outcome
        owned.callback(os.close, await lock_out_orphans(directory.run))
        [child] = supervisor.start(programs.postgres(cluster), stop_seconds=_POSTGRES_STOP_SECONDS)
        await child.ready.wait()
        outcome = await run_program(arguments, _environment(cluster, storage_url_of(directory.path)))
        stop.set()

    try:
        await supervisor.run(work(), stop)
    finally:
        await supervisor.stop()
    if outcome is None:
        raise CommandError("stopped before its end")
    return outcome


def _environment(cluster: EmbeddedPostgres, storage_url: str) -> Mapping[str, str]:
    # What libpq's variables say is meant for other databases.
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PG")}
    return {
        **kept,
        "TOWPATH_STORAGE_DATABASE_URL": cluster.url,
        "TOWPATH_STORAGE_URL": storage_url,
    }
