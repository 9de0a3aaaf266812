"""Comparing the index with the bytes, beside running services.

The index and the bytes are read side by side, by oid. What differs is looked at again: only what differs then, and
has not been replaced or removed meanwhile, is a finding.
"""

from collections.abc import AsyncGenerator
from contextlib import aclosing

from sqlalchemy import func, select, text
from sqlalchemy.ext.asyncio import AsyncConnection
from sqlmodel import col

from services.backup.backup import Source
from services.backup.database import acting_for
from services.backup.errors import BackupError
from services.backup.findings import Finding, Findings
from services.backup.object_list import Entry
from services.backup.pace import Pace
from services.backup.progress import Bytes, progress
from services.backup.reading import DamagedBytes, stored_bytes
from services.database.migrations import RESTORING, version_of
from services.storage import contents
from services.storage.contents import STORE_ID, State
from services.storage.models import SCHEMA_NAME as STORAGE
from services.storage.models import Content, Object
from services.storage.names import oid_of
from services.storage.writer import is_gone

_PAGE = 10_000
_REPOSITORIES = text(
    "SELECT coalesce(r.name, 'repository ' || o.repository_id) FROM storage.objects o"
    " LEFT JOIN locks.repositories r ON r.id = o.repository_id"
    " WHERE o.oid = :oid AND o.removed_at IS NULL ORDER BY 1"
)
_NO_NAME = ""


async def check(source: Source, *, hashed: bool, rate: int | None) -> Findings:
    """Compare the index with the bytes; with `hashed`, read them all, at most `rate` bytes a second."""
    findings = Findings(hashed)
    async with source.engine.begin() as connection, acting_for(connection, STORAGE):
        if await version_of(connection, STORAGE) in (None, RESTORING):
            raise BackupError("the schema storage has no tables: nothing to check")
        total = await connection.scalar(select(func.sum(col(Object.size))).where(col(Object.removed_at).is_(None)))
    with progress("Checking objects", int(total or 0)) as shown:
        await _Check(source, findings, Pace(rate), shown).run()
    findings.left_over = await _left_over(source)
    return findings


async def _left_over(source: Source) -> int:
    """Return how many uploads the next sweep gives up, as their process is gone."""
    async with source.engine.begin() as connection:
        async with acting_for(connection, STORAGE):
            writers = {
                writer: len(await contents.ongoing(connection, writer)) for writer in await contents.writers(connection)
            }
        return sum([count for writer, count in writers.items() if await is_gone(connection, writer)])


class _Check:
    """One run."""

    def __init__(self, source: Source, findings: Findings, pace: Pace, shown: Bytes) -> None:
        self._source = source
        self._findings = findings
        self._pace = pace
        self._shown = shown

    async def run(self) -> None:
        stored = self._source.backend.stored()
        there = await anext(stored, None)
        async with aclosing(_held(self._source)) as held:
            async for entry in held:
                found = None
                while there is not None and oid_of(there[0]) <= entry.oid:
                    if there[0] == entry.name:
                        found = there[1]
                    else:
                        await self._look_at_orphan(there[0])
                    there = await anext(stored, None)
                await self._look_at(entry, found)
        while there is not None:
            await self._look_at_orphan(there[0])
            there = await anext(stored, None)

    async def _look_at(self, entry: Entry, found: int | None) -> None:
        self._findings.objects += 1
        self._findings.bytes += entry.size
        if found != entry.size or (self._findings.hashed and await self._problem(entry) is not None):
            await self._look_again(entry.oid)
        self._shown.done(entry.size)

    async def _problem(self, entry: Entry) -> str | None:
        """Read an object to its end, at the pace, and return what is wrong with its bytes."""
        try:
            async with aclosing(stored_bytes(self._source.backend, entry)) as chunks:
                async for chunk in chunks:
                    await self._pace.keep(len(chunk))
        except DamagedBytes as error:
            return str(error)
        return None

    async def _look_again(self, oid: str) -> None:
        """Tell what is wrong with an object, unless it changes meanwhile: then look once more."""
        entry = await self._entry(oid)
        while entry is not None:
            kind, problem = await self._kind_of_problem(entry)
            now = await self._entry(oid)
            if now == entry:
                if kind is not None:
                    async with self._source.engine.begin() as connection:
                        repositories = tuple(await connection.scalars(_REPOSITORIES, {"oid": oid}))
                    self._findings.add(kind, Finding(oid, entry.size, problem, entry.name, repositories))
                return
            entry = now

    async def _kind_of_problem(self, entry: Entry) -> tuple[str | None, str]:
        found = (await self._source.backend.sizes([entry.name])).get(entry.name) if entry.name else None
        if found is None:
            return "missing", "the bytes are not there"
        if found != entry.size:
            return "corrupt", f"{found} bytes, expected {entry.size}"
        if self._findings.hashed and (problem := await self._problem(entry)) is not None:
            return "corrupt", problem
        return None, ""

    async def _entry(self, oid: str) -> Entry | None:
        async with self._source.engine.begin() as connection, acting_for(connection, STORAGE):
            [*entries] = await _entries(connection, after="", only=oid)
        return entries[0] if entries else None

    async def _look_at_orphan(self, name: str) -> None:
        async with self._source.engine.begin() as connection, acting_for(connection, STORAGE):
            state = await contents.state_of(connection, name)
        if state is State.DISCARDED:
            self._findings.unclaimed += 1
        elif state is State.UNKNOWN:
            size = (await self._source.backend.sizes([name])).get(name)
            if size is not None:
                self._findings.add("orphaned", Finding(oid_of(name), size, "no repository holds it", name))


async def _held(source: Source) -> AsyncGenerator[Entry]:
    """Return all objects that repositories hold, by oid, some in each transaction."""
    last = ""
    while True:
        async with source.engine.begin() as connection, acting_for(connection, STORAGE):
            entries = await _entries(connection, after=last)
        for entry in entries:
            yield entry
        if len(entries) < _PAGE:
            return
        last = entries[-1].oid


async def _entries(connection: AsyncConnection, *, after: str, only: str | None = None) -> list[Entry]:
    oid = col(Object.oid)
    statement = (
        select(oid, func.max(col(Object.size)), func.coalesce(func.max(col(Content.name)), _NO_NAME))
        .outerjoin(Content, (col(Content.oid) == oid) & (col(Content.store_id) == STORE_ID))
        .where(col(Object.removed_at).is_(None), oid > after if only is None else oid == only)
        .group_by(oid)
        .order_by(oid)
        .limit(_PAGE)
    )
    return [Entry(*row) for row in await connection.execute(statement)]
