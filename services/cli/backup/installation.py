"""Installation that a backup command works on: a data folder, with or without a `towpath up`, or the environment's."""

import asyncio
import os
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path

from services.cli.embedded_postgres import EmbeddedPostgres
from services.cli.errors import CommandError
from services.cli.program import Outcome, run_program
from services.cli.unprivileged.account import account_for
from services.cli.unprivileged.entry import Inherited, enter
from services.cli.unprivileged.installation import installation_for
from services.cli.up import programs
from services.cli.up.data_directory import DataDirectory, FolderTaken, reach, storage_url_of
from services.cli.up.orphans import lock_out_orphans
from services.cli.up.runtime_directory import POSTGRES_SOCKET, runtime_directory
from services.cli.up.supervisor import Supervisor
from services.common.lifecycle import stop_event

_POSTGRES_STOP_SECONDS = 20.0


async def run_on_data(
    data: Path, arguments: list[str], *, new: bool = False, storage: str | None = None, user: str | None = None
) -> Outcome:
    """Run the program on a data folder; start Postgres for its duration if no `towpath up` runs on the folder.

    `data` is an absolute path without symbolic links. With `new`, the folder may be missing, no `towpath up` may run on
    it, and its blobs go to the URL `storage` if it is given. If this process is root's, Postgres runs as the account of
    `account_for`, and the program as root, because the account may not be able to access the backup. Raises
    `CommandError`.
    """
    # Test for the lock, because the storage folder may be gone after a move of all blobs to another store.
    if not new and not (data / "lock").is_file():
        raise CommandError(f"{data}: no data of a `towpath up`; give --data")
    if new:
        # Reject a folder that is no backup, or a damaged one, before making a data folder, a Postgres or an account.
        await run_program(["verify", *arguments[1:]], os.environ)
    account = account_for(data, user)
    with ExitStack() as owned:
        try:
            directory = owned.enter_context(DataDirectory.open(data, account))
        except FolderTaken:
            if new:
                raise
            return await _run_beside(data, arguments)
        return await _run_on_folder(directory, arguments, owned, new=new, storage=storage)


def enter_account(data: Path, user: str | None) -> None:
    """Start this command again as the account of the data folder if this process is root's; else return.

    Only for a command that writes nowhere but into the folder. Raises `CommandError`.
    """
    if not (data / "lock").is_file() or (account := account_for(data, user)) is None:
        return
    try:
        with DataDirectory.open(data, account) as directory:
            enter(account, directory.bequest())
    except FolderTaken:
        folder = reach(data, account)
        enter(account, Inherited(str(data), folder=folder))


async def run_as_account(inherited: Inherited, arguments: list[str]) -> Outcome:
    """Run the program on the data folder that root has opened for this process of the account."""
    if inherited.lock is None:
        return await _run_beside(inherited.reached, arguments, inherited.descriptors)
    with ExitStack() as owned:
        directory = owned.enter_context(DataDirectory.inherited(inherited))
        return await _run_on_folder(directory, arguments, owned)


async def _run_beside(data: Path, arguments: list[str], inherited: Sequence[int] = ()) -> Outcome:
    """Run the program on a data folder on which `towpath up` runs."""
    sockets = runtime_directory(data)
    if not (sockets / POSTGRES_SOCKET).exists():
        raise CommandError(_no_cluster(data))
    cluster = EmbeddedPostgres(data / "postgres", sockets)
    return await run_program(arguments, _environment(cluster, storage_url_of(data)), inherited)


async def _run_on_folder(
    directory: DataDirectory, arguments: list[str], owned: ExitStack, *, new: bool = False, storage: str | None = None
) -> Outcome:
    if not new:
        directory.refuse_half_restored()
    if not new and not directory.postgres.exists():
        raise CommandError(_no_cluster(directory.path))
    if new:
        # Root owns the storage folder while it writes there: `give` skips a folder that is the account's already, and
        # would leave root's files in it after a kill.
        directory.take_storage()
        directory.begin_restore()
    owned.callback(directory.give)
    storage_url = directory.storage_url(storage)
    outcome = await _with_postgres(directory, storage_url, arguments, owned)
    if new:
        directory.end_restore()
    return outcome


def _no_cluster(data: Path) -> str:
    return (
        f"{data}: no Postgres of its own runs there; set TOWPATH_STORAGE_DATABASE_URL to the database "
        f"and TOWPATH_STORAGE_URL to {storage_url_of(data)} instead of --data"
    )


async def _with_postgres(directory: DataDirectory, storage_url: str, arguments: list[str], owned: ExitStack) -> Outcome:
    stop = stop_event(None)
    run = directory.make_run()
    packages = None
    if directory.account is not None:
        installation = await asyncio.to_thread(installation_for, directory.account)
        packages = installation.packages
        owned.callback(installation.close)
    cluster = EmbeddedPostgres(directory.postgres, run, run_as=directory.run_as, packages=packages)
    supervisor = Supervisor()
    outcome: Outcome | None = None

    async def work() -> None:
        nonlocal outcome
        owned.callback(os.close, await lock_out_orphans(run))
        [child] = supervisor.start(programs.postgres(cluster), stop_seconds=_POSTGRES_STOP_SECONDS)
        await child.ready.wait()
        outcome = await run_program(arguments, _environment(cluster, storage_url), directory.run_as.inherited)
        stop.set()

    try:
        await supervisor.run(work(), stop)
    finally:
        await supervisor.stop()
    if outcome is None:
        raise CommandError("stopped before its end")
    return outcome


def _environment(cluster: EmbeddedPostgres, storage_url: str) -> Mapping[str, str]:
    # The operator's libpq variables are meant for other databases.
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PG")}
    return {**kept, "TOWPATH_STORAGE_DATABASE_URL": cluster.url, "TOWPATH_STORAGE_URL": storage_url}
