"""Comparing the index with the bytes, beside running services.

The index and the bytes are read side by side, by oid. What differs is looked at again under the oid's lock, which
excludes uploads and removals of that object: only what differs then is a finding.
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
from services.backup.pace import Pace
from services.backup.progress import Bytes, progress
from services.backup.reading import DamagedBytes, stored_bytes
from services.database.migrations import RESTORING, version_of
from services.storage import index
from services.storage.models import SCHEMA_NAME as STORAGE
from services.storage.models import Object, UnclaimedObject

_PAGE = 10_000
_NAMES = text(
    "SELECT coalesce(r.name, 'repository ' || o.repository_id) FROM storage.objects o"
    " LEFT JOIN locks.repositories r ON r.id = o.repository_id"
    " WHERE o.oid = :oid AND o.removed_at IS NULL ORDER BY 1"
)


async def check(source: Source, *, hashed: bool, rate: int | None) -> Findings:
    """Compare the index with the bytes; with `hashed`, read them all, at most `rate` bytes a second."""
    findings = Findings(hashed)
    async with source.engine.begin() as connection, acting_for(connection, STORAGE):
        if await version_of(connection, STORAGE) in (None, RESTORING):
            raise BackupError("the schema storage has no tables: nothing to check")
        total = await connection.scalar(select(func.sum(col(Object.size))).where(col(Object.removed_at).is_(None)))
    with progress("Checking objects", int(total or 0)) as shown:
        await _Check(source, findings, Pace(rate), shown).run()
    findings.left_over = await source.backend.left_over()
    return findings


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
            async for oid, size in held:
                while there is not None and there[0] < oid:
                    await self._look_at_orphan(*there)
                    there = await anext(stored, None)
                here = there is not None and there[0] == oid
                await self._look_at(oid, size, there[1] if there is not None and here else None)
                if here:
                    there = await anext(stored, None)
        while there is not None:
            await self._look_at_orphan(*there)
            there = await anext(stored, None)

    async def _look_at(self, oid: str, size: int, found: int | None) -> None:
        self._findings.objects += 1
        self._findings.bytes += size
        if found != size or (self._findings.hashed and await self._problem(oid, size) is not None):
            await self._look_again(oid, size)
        self._shown.done(size)

    async def _problem(self, oid: str, size: int) -> str | None:
        """Read an object to its end, at the pace, and return what is wrong with its bytes."""
        try:
            async with aclosing(stored_bytes(self._source.backend, oid, size)) as chunks:
                async for chunk in chunks:
                    await self._pace.keep(len(chunk))
        except DamagedBytes as error:
            return str(error)
        return None

    async def _look_again(self, oid: str, size: int) -> None:
        problem = None
        if self._findings.hashed:
            # Without the lock, which an upload of the object would have to wait for.
            problem = await self._problem(oid, size)
            if problem is None:
                return
        async with self._source.engine.begin() as connection:
            await index.lock(connection, oid)
            held = await _size_of(connection, oid)
            if held is None:
                return
            found = (await self._source.backend.sizes([oid])).get(oid)
            names = tuple(await connection.scalars(_NAMES, {"oid": oid}))
        if found is None:
            self._findings.add("missing", Finding(oid, held, "the bytes are not there", names))
        elif found != held:
            self._findings.add("corrupt", Finding(oid, held, f"{found} bytes, expected {held}", names))
        elif problem is not None:
            self._findings.add("corrupt", Finding(oid, held, problem, names))

    async def _look_at_orphan(self, oid: str, _size: int) -> None:
        async with self._source.engine.begin() as connection:
            await index.lock(connection, oid)
            found = (await self._source.backend.sizes([oid])).get(oid)
            if found is None or await _size_of(connection, oid) is not None:
                return
            noted = select(col(UnclaimedObject.oid)).where(col(UnclaimedObject.oid) == oid)
            async with acting_for(connection, STORAGE):
                if await connection.scalar(noted) is not None:
                    self._findings.unclaimed += 1
                    return
        self._findings.add("orphaned", Finding(oid, found, "no repository holds it"))


async def _size_of(connection: AsyncConnection, oid: str) -> int | None:
    statement = select(func.max(col(Object.size))).where(col(Object.oid) == oid, col(Object.removed_at).is_(None))
    async with acting_for(connection, STORAGE):
        size: int | None = await connection.scalar(statement)
    return size


async def _held(source: Source) -> AsyncGenerator[tuple[str, int]]:
    """Return all objects that repositories hold, by oid, some in each transaction."""
    last = ""
    while True:
        statement = (
            select(col(Object.oid), func.max(col(Object.size)))
            .where(col(Object.removed_at).is_(None), col(Object.oid) > last)
            .group_by(col(Object.oid))
            .order_by(col(Object.oid))
            .limit(_PAGE)
        )
        async with source.engine.begin() as connection, acting_for(connection, STORAGE):
            rows = (await connection.execute(statement)).all()
        for oid, size in rows:
            yield oid, size
        if len(rows) < _PAGE:
            return
        last = rows[-1][0]
