"""The import of objects and locks into a repository."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from towpath.access.v1 import admin_service_pb2 as pb

from services.cli.connection import Administration
from services.cli.errors import CommandError
from services.cli.pointers.named import SIZE_BYTES, add_pointers
from services.cli.pointers.oid_spool import OidSpool
from services.common.progress import progress
from services.transfer.addresses import open_source, opened_server, server_url
from services.transfer.locks import Mode, Owners, Taken, Taking, read_list
from services.transfer.moving import Mover, pointers_of
from services.transfer.places import Sink, Source
from services.transfer.rate import Rate
from services.transfer.server.http import Http
from services.transfer.server.locks import TheirLock, list_locks
from services.transfer.towpath import TowpathSink

Report = tuple[Mapping[str, Any], bool]
"""The document to print, and whether nothing is missing, wrong or in conflict."""


@dataclass(frozen=True)
class Pace:
    """The objects that move at once, and the bytes that move in a second; 0 for no limit."""

    concurrency: int
    rate: int


@dataclass(frozen=True)
class Import:
    """An import that is asked for; see the options of `towpath repo import`."""

    repository: str
    source: str
    git: str | None
    mode: Mode
    lock_list: Path | None
    owners: Owners
    pace: Pace


async def import_repository(admin: Administration, asked: Import) -> Report:
    """Import what the repository lacks. Raises `CommandError` and `ServiceError`."""
    url = server_url(asked.source)
    if url is not None and asked.git is None:
        raise CommandError("expected --git with a server: only the git repository tells which objects there are")
    # What is wrong with the name or the token is told before hours of work.
    await admin.call(admin.stub.ListUsage, pb.ListUsageRequest(repository=asked.repository))
    async with AsyncExitStack() as stack:
        http = None
        if url is not None:
            http = await stack.enter_async_context(opened_server(url, asked.git, asked.pace.concurrency))
        server = (http, url) if http is not None and url is not None else None
        source = await open_source(asked.source, server)
        locks = _Locks(admin, asked, server)
        await locks.read()
        with OidSpool(SIZE_BYTES) as spool:
            await (source.add_all(spool) if asked.git is None else add_pointers(asked.git, spool))
            report, is_well = await move(
                spool, source, TowpathSink(admin, asked.repository, source.name), asked.pace, f"import {source.name}"
            )
        taken = await locks.take(source.name)
    record = {"repository": asked.repository, "from": source.name, **report}
    if taken is None:
        return record, is_well
    return {**record, "locks": taken.record()}, is_well and not taken.conflicts


class _Locks:
    """The locks that come along."""

    def __init__(self, admin: Administration, asked: Import, server: tuple[Http, str] | None) -> None:
        self._admin = admin
        self._asked = asked
        self._server = server

    async def read(self) -> tuple[Sequence[TheirLock], Mapping[str, str]] | None:
        """Return the locks, and the users of their owners; None where no locks come along. Raises `CommandError`."""
        if self._asked.mode is Mode.NONE:
            return None
        if self._asked.lock_list is not None:
            theirs: Sequence[TheirLock] | None = read_list(self._asked.lock_list)
        elif self._server is not None:
            theirs = await list_locks(*self._server)
        else:
            theirs = None
        if theirs is None:
            return None
        return theirs, await self._asked.owners.resolve(self._admin, (lock.owner for lock in theirs))

    async def take(self, origin: str) -> Taken | None:
        """Take the locks as they stand by now: moving the objects may have taken hours."""
        found = await self.read()
        if found is None:
            return None
        taking = Taking(self._admin, self._asked.repository, origin, self._asked.mode)
        await taking.run(*found)
        return taking.taken


async def move(spool: OidSpool, source: Source, sink: Sink, pace: Pace, what: str) -> Report:
    """Move the objects of a spool that the sink lacks, and show the progress. Raises `CommandError`, `ServiceError`."""
    total = sum(pointer.size for pointer in pointers_of(spool))
    with progress(what, total) as advance:
        mover = _mover(source, sink, pace, advance)
        await mover.run(spool)
    return mover.moved.record(), not mover.moved.problems


def _mover(source: Source, sink: Sink, pace: Pace, advance: Callable[[int], None]) -> Mover:
    return Mover(source, sink, concurrency=pace.concurrency, rate=Rate(pace.rate), advance=advance)
