"""The comparison of the index with the blobs of each store, beside running services.

The index and the blobs are read side by side, ordered by oid. A difference is examined again: it is a finding only if
it persists, and the object has been neither replaced nor removed meanwhile.
"""

import asyncio
from collections.abc import Callable
from contextlib import aclosing
from dataclasses import dataclass, field

from services.backup.copy_objects import DamagedBytes, stored_bytes
from services.backup.errors import BackupError
from services.backup.inventory import (
    Held,
    abandoned_uploads,
    expected_in,
    held_bytes,
    held_object,
    is_named,
    mark_damaged,
    mark_intact,
    repositories_of,
)
from services.backup.object_list import Entry
from services.backup.report import Finding, Findings
from services.backup.stores import Source, Store
from services.common.progress import progress
from services.database.versions import RESTORING, version_of
from services.storage.blob_names import oid_of
from services.storage.index.models import SCHEMA_NAME as STORAGE
from services.storage.replication.rate_limit import RateLimiter

_MOMENT_SECONDS = 1.0


async def check(source: Source, *, hashed: bool, rate: int | None, heal: bool = False) -> Findings:
    """Compare the index with the blobs; with `hashed`, read them all, at most `rate` bytes a second.

    With `heal`, which needs `hashed`, the index is marked, so that the services copy a damaged blob again from a store
    in which it is intact, or request the object from clients if no store has it, and trust a doubted blob again if it
    is intact.
    """
    findings = Findings(hashed, healing=0 if heal else None, wanted=0 if heal else None)
    async with source.engine.begin() as connection:
        if await version_of(connection, STORAGE) in (None, RESTORING):
            raise BackupError("the schema storage has no tables: nothing to check")
    with progress("Checking objects", await held_bytes(source)) as shown:
        for store in source.stores:
            await _Check(source, store, findings, RateLimiter(rate), shown).run()
    findings.abandoned = await abandoned_uploads(source)
    return findings


@dataclass
class _Check:
    """The check of one store."""

    source: Source
    store: Store
    findings: Findings
    rate_limiter: RateLimiter
    shown: Callable[[int], None]
    orphans: list[str] = field(default_factory=list)

    async def run(self) -> None:
        stored = self.store.backend.list_blobs()
        there = await anext(stored, None)
        async with aclosing(expected_in(self.source, self.store)) as held:
            async for entry, is_first, is_doubted in held:
                found = None
                while there is not None and oid_of(there[0]) <= entry.oid:
                    if there[0] == entry.name:
                        found = there[1]
                    else:
                        await self._look_at_unnamed(there[0])
                    there = await anext(stored, None)
                if is_first:
                    self.findings.objects += 1
                    self.findings.bytes += entry.size
                await self._look_at(entry, found, is_doubted=is_doubted)
        while there is not None:
            await self._look_at_unnamed(there[0])
            there = await anext(stored, None)
        if self.orphans:
            # The blob of a small object is in the store a moment before the index names it.
            await asyncio.sleep(_MOMENT_SECONDS)
        for name in self.orphans:
            await self._tell_orphan(name)

    async def _look_at(self, entry: Entry, found: int | None, *, is_doubted: bool) -> None:
        if found != entry.size or (self.findings.hashed and await self._damage(self.store, entry) is not None):
            await self._look_again(entry.oid)
        elif is_doubted and self.findings.wanted is not None:
            await mark_intact(self.source, self.store, entry)
        self.shown(entry.size)

    async def _damage(self, store: Store, entry: Entry) -> str | None:
        """Read a blob to its end, within the rate limit, and return what is wrong with its bytes."""
        try:
            async with aclosing(stored_bytes(store.backend, entry)) as chunks:
                async for chunk in chunks:
                    await self.rate_limiter.acquire(len(chunk))
        except DamagedBytes as error:
            return str(error)
        return None

    async def _look_again(self, oid: str) -> None:
        """Report what is wrong with an object; if the object changes meanwhile, examine it again."""
        held = await held_object(self.source, oid)
        while held is not None and (self.store.id in held.names or not held.names):
            kind, problem = await self._kind_of_problem(self.store, held)
            good = None if kind is None else await self._good_store(held)
            now = await held_object(self.source, oid)
            if now == held:
                if kind is not None:
                    await self._tell(held, kind, problem, good)
                return
            held = now

    async def _kind_of_problem(self, store: Store, held: Held) -> tuple[str | None, str]:
        name = held.names.get(store.id)
        found = None if name is None else (await store.backend.stat([name])).get(name)
        if name is None or found is None:
            return "missing", "the bytes are not there"
        if found != held.size:
            return "corrupt", f"{found} bytes, expected {held.size}"
        if self.findings.hashed and (damage := await self._damage(store, Entry(held.oid, held.size, name))):
            return "corrupt", damage
        return None, ""

    async def _good_store(self, held: Held) -> Store | None:
        """Return another store in which the object's blob is intact; None if there is none."""
        for other in self.source.stores:
            if other != self.store and other.id in held.names and (await self._kind_of_problem(other, held))[0] is None:
                return other
        return None

    async def _tell(self, held: Held, kind: str, problem: str, good: Store | None) -> None:
        if good is not None:
            kind, problem = "healable", f"{problem}; {good.name} has them"
            if self.findings.healing is not None:
                self.findings.healing += await mark_damaged(self.source, held, bad=self.store, good=good)
        elif self.findings.wanted is not None:
            self.findings.wanted += await mark_damaged(self.source, held, bad=self.store, good=None)
        repositories = await repositories_of(self.source, held.oid)
        name = held.names.get(self.store.id, "")
        self.findings.add(kind, Finding(held.oid, held.size, problem, name, self._told_store, repositories))

    async def _look_at_unnamed(self, name: str) -> None:
        """Classify a blob that was not expected: newer than the listing, pending, to be deleted, or an orphan."""
        needed, discarded = await is_named(self.source, self.store, name)
        if discarded:
            self.findings.unclaimed += 1
        elif not needed:
            self.orphans.append(name)

    async def _tell_orphan(self, name: str) -> None:
        needed, discarded = await is_named(self.source, self.store, name)
        size = (await self.store.backend.stat([name])).get(name)
        if size is not None and not needed and not discarded:
            finding = Finding(oid_of(name), size, "no repository holds it", name, self._told_store)
            self.findings.add("orphaned", finding)

    @property
    def _told_store(self) -> str | None:
        return self.store.name if len(self.source.stores) > 1 else None
