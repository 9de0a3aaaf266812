"""Start and stop of `towpath up`, from the data folder to the ready line."""

import asyncio
import os
import socket
import sys
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import NoReturn

from pydantic import SecretStr

from services.cli.embedded_postgres import EmbeddedPostgres
from services.cli.errors import CommandError
from services.cli.processes import open_pipe
from services.cli.unprivileged.account import Account
from services.cli.unprivileged.entry import Inherited, enter
from services.cli.unprivileged.ownership import provide_folder
from services.cli.up import programs
from services.cli.up.child import Child
from services.cli.up.data_directory import DataDirectory
from services.cli.up.environment import Environments, cache_environment
from services.cli.up.listener import inherit, listen
from services.cli.up.orphans import lock_out_orphans
from services.cli.up.supervisor import Supervisor
from services.common.addresses import Address
from services.common.files import write_secret
from services.common.lifecycle import stop_event
from services.common.observability.logs import get_logger

_log = get_logger(__name__)

READY_LINE = "Towpath is ready: {origin}\n"

_READY_SECONDS = 300.0
# Everything stops within 10 s. Each tier first drains, and is killed at its deadline, counted from the signal.
_FACADE_DRAIN_SECONDS, _FACADE_STOP_SECONDS = 4.0, 5.0
_SERVICE_DRAIN_SECONDS, _SERVICE_STOP_SECONDS = 1.0, 6.5
_POSTGRES_STOP_SECONDS = 9.0


@dataclass(frozen=True)
class UpOptions:
    """The operator's options; of `environment`, each service gets what it reads."""

    data: Path
    listen: Address
    public_url: str | None
    database_url: SecretStr | None
    storage_url: str | None
    upstream: str | None
    """The server that a cache answers for, in place of a Towpath of one's own."""
    facades: int
    hang_seconds: float
    demo: bool
    log_format: str
    environment: Mapping[str, str] = field(repr=False)


def enter_account(options: UpOptions, account: Account) -> NoReturn:
    """Take the steps that only root can take, and start this command again as the account. Raises `CommandError`."""
    with DataDirectory.open(options.data, account) as directory:
        provide_folder(directory.storage_url(options.storage_url), account)
        directory.give()
        listener, _ = listen(options.listen)
        with listener:
            enter(account, directory.bequest(listener=listener.fileno()))


async def up(options: UpOptions, inherited: Inherited | None) -> None:
    """Run everything until SIGINT or SIGTERM, and stop it. Raises `CommandError`.

    `inherited` has the descriptors that root has opened, if root has started this command by `enter_account`.
    """
    stop = stop_event(None)
    with ExitStack() as owned:
        directory = owned.enter_context(
            DataDirectory.open(options.data) if inherited is None else DataDirectory.inherited(inherited)
        )
        directory.refuse_half_restored()
        if inherited is None or inherited.listener is None:
            listener, address = listen(options.listen)
        else:
            listener, address = inherit(inherited.listener, options.listen)
        owned.enter_context(listener)
        lifeline, _ = owned.enter_context(open_pipe())
        supervisor = Supervisor()
        try:
            stack = _Stack(options, directory, listener, address, lifeline, supervisor, owned)
            await supervisor.run(
                stack.start() if options.upstream is None else stack.start_cache(options.upstream), stop
            )
        finally:
            # Refuse new clients from here on: they would wait for a facade that does not start again.
            listener.close()
            await supervisor.stop()


@dataclass
class _Stack:
    """One run of `towpath up`."""

    options: UpOptions
    directory: DataDirectory
    listener: socket.socket
    address: Address
    lifeline: int
    supervisor: Supervisor
    owned: ExitStack
    cluster: EmbeddedPostgres | None = None

    async def start(self) -> None:
        """Start everything in order, and print the ready line once the facade answers."""
        directory = self.directory
        storage_url = directory.storage_url(self.options.storage_url)
        run = directory.make_run()
        orphans = await lock_out_orphans(run)
        self.owned.callback(os.close, orphans)
        environments = await self._database(run)
        inherited = (*directory.run_as.inherited, self.lifeline, orphans)
        storage = environments.storage(storage_url, drain_seconds=_SERVICE_DRAIN_SECONDS)
        locks = environments.locks(drain_seconds=_SERVICE_DRAIN_SECONDS)
        signing_key = directory.ensure_signing_key()
        facades = [
            environments.facade(
                self.listener.fileno(),
                storage_url=storage_url,
                signing_key=signing_key,
                public_url=self.options.public_url,
                drain_seconds=_FACADE_DRAIN_SECONDS,
                number=number,
            )
            for number in range(self.options.facades)
        ]
        first = not directory.admin_token.exists()
        if first or self.cluster is None or not await programs.tables_are_newest(self.cluster):
            await _migrate(storage, locks, inherited)
        if first:
            write_secret(directory.admin_token, await programs.bootstrap(environments.bootstrap(), inherited) + "\n")
        self.supervisor.start(
            programs.service("storage", storage, inherited, hang_seconds=self.options.hang_seconds),
            programs.service("locks", locks, inherited, hang_seconds=self.options.hang_seconds),
            stop_seconds=_SERVICE_STOP_SECONDS,
        )
        origin = f"{self._scheme}://{self.address.reachable}"
        ssh = environments.ssh(origin, public_url=self.options.public_url, drain_seconds=_FACADE_DRAIN_SECONDS)
        # The facades accept from one queue, so that a facade's death loses no connection that waits there. All facades
        # have the same probe, because they share the port.
        first_facade, *_ = self.supervisor.start(
            *(
                programs.service(
                    "facade",
                    facade,
                    (*inherited, self.listener.fileno()),
                    hang_seconds=self.options.hang_seconds,
                    ready=lambda: programs.wait_until_ready(origin),
                )
                for facade in facades
            ),
            *(
                [programs.service("ssh", ssh, inherited, hang_seconds=self.options.hang_seconds)]
                if ssh is not None
                else []
            ),
            stop_seconds=_FACADE_STOP_SECONDS,
        )
        await _wait_ready(first_facade)
        if self.options.demo:
            base = self.options.public_url or origin
            # Import it here: only the demo needs httpx, whose import is slow.
            from services.cli.up.demo import provide_demo

            await provide_demo(directory, environments.locks_address, origin=origin, shown_origin=base)
        self._tell_ready()

    async def start_cache(self, upstream: str) -> None:
        """Start a cache alone, and print the ready line once it answers."""
        directory = self.directory
        orphans = await lock_out_orphans(directory.make_run())
        self.owned.callback(os.close, orphans)
        environment = cache_environment(
            self.options.environment,
            self.lifeline,
            self.listener.fileno(),
            upstream=upstream,
            directory=directory.cache,
            public_url=self.options.public_url,
            log_format=self.options.log_format,
            drain_seconds=_FACADE_DRAIN_SECONDS,
        )
        inherited = (*directory.run_as.inherited, self.lifeline, orphans, self.listener.fileno())
        origin = f"{self._scheme}://{self.address.reachable}"
        [cache] = self.supervisor.start(
            programs.service(
                "cache",
                environment,
                inherited,
                hang_seconds=self.options.hang_seconds,
                ready=lambda: programs.wait_until_ready(origin),
            ),
            stop_seconds=_FACADE_STOP_SECONDS,
        )
        await _wait_ready(cache)
        self._tell_ready()

    @property
    def _scheme(self) -> str:
        # The processes choose it by the same variable.
        return "https" if self.options.environment.get("TOWPATH_HTTPS_CERTIFICATE") else "http"

    def _tell_ready(self) -> None:
        sys.stdout.write(READY_LINE.format(origin=f"{self._scheme}://{self.address}"))
        sys.stdout.flush()

    async def _database(self, run: Path) -> Environments:
        """Return the environments of the services; start the embedded Postgres first if no database URL is given."""
        url = self.options.database_url
        inherited = self.options.environment
        if url is None:
            self.cluster = cluster = EmbeddedPostgres(self.directory.postgres, run, run_as=self.directory.run_as)
            [child] = self.supervisor.start(
                programs.postgres(cluster, hang_seconds=self.options.hang_seconds), stop_seconds=_POSTGRES_STOP_SECONDS
            )
            await child.ready.wait()
            url = SecretStr(cluster.url)
            # The operator's libpq variables are meant for other databases.
            inherited = {name: value for name, value in inherited.items() if not name.startswith("PG")}
        return Environments(
            inherited, run, url, self.lifeline, self.options.log_format, memory=self.directory.make_memory()
        )


async def _wait_ready(child: Child) -> None:
    try:
        async with asyncio.timeout(_READY_SECONDS):
            await child.ready.wait()
    except TimeoutError:
        raise CommandError(f"the {child.name} does not answer after {_READY_SECONDS:.0f} s") from None


async def _migrate(storage: Mapping[str, str], locks: Mapping[str, str], inherited: Sequence[int]) -> None:
    try:
        async with asyncio.TaskGroup() as migrations:
            done = [
                migrations.create_task(programs.migrate("storage", storage, inherited)),
                migrations.create_task(programs.migrate("locks", locks, inherited)),
            ]
    except ExceptionGroup as failures:
        # One failure is enough: the task group has cancelled the other migration because of it.
        raise failures.exceptions[0] from failures
    for migration in done:
        _log.info(migration.result())
