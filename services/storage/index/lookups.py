"""Batched lookups in the index: concurrent lookups share one statement."""

import math
from collections.abc import Collection, Sequence
from typing import NamedTuple

from services.common.concurrency.batcher import Batcher
from services.database.statement import Statement
from services.database.transactions import Database
from services.storage.index.contents import BlobLocation

# SQL as text on the hot path, because building a statement with SQLAlchemy costs more than executing it.
_LOCATE = """
    SELECT asked.number, objects.oid, objects.size, objects.removed_at IS NOT NULL, objects.removal_reason,
        contents.store_id, contents.name, contents.is_doubted, objects.is_collected,
        extract(epoch FROM now() - objects.used_at)::double precision
    FROM unnest($1::integer[], $2::bigint[], $3::text[]) AS asked (number, repository_id, oid)
    JOIN storage.objects USING (repository_id, oid)
    LEFT JOIN storage.contents USING (oid)
"""


class Located(NamedTuple):
    """An object of a repository, held or removed, and the locations of its blobs.

    A removed object still has locations while another repository holds it.
    """

    oid: str
    size: int
    is_removed: bool
    removal_reason: str | None
    locations: list[BlobLocation]
    damaged: list[BlobLocation]
    """The locations of blobs that were found damaged."""
    is_collected: bool
    """True if the object was removed as garbage, so that it may be uploaded again."""
    unused_seconds: float
    """The seconds since the last recorded use; infinity if there was none."""


class _LookupKey(NamedTuple):
    repository_id: int
    oids: Sequence[str]


class ObjectLookups:
    """Looks objects up. Its owner closes it."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._batcher = Batcher(self._locate)

    async def locate(self, repository_id: int, oids: Collection[str]) -> list[Located]:
        """Return those of these objects that exist, held or removed, with the locations of their blobs, as of now.

        Raises `Unavailable`.
        """
        return await self._batcher.submit(_LookupKey(repository_id, list(oids)))

    async def close(self) -> None:
        """Cancel the lookups that are in flight or waiting."""
        await self._batcher.close()

    async def _locate(self, group: Sequence[_LookupKey]) -> list[list[Located]]:
        rows = [(number, key.repository_id, oid) for number, key in enumerate(group) for oid in key.oids]
        statement = Statement(_LOCATE, tuple(zip(*rows, strict=True)) if rows else ((), (), ()))
        found: list[dict[str, Located]] = [{} for _ in group]
        for (
            number,
            oid,
            size,
            is_removed,
            reason,
            store_id,
            name,
            is_doubted,
            is_collected,
            unused,
        ) in await self._database.fetch(statement, patient=len(group) == 1):
            located = found[number].get(oid)
            if located is None:
                located = found[number][oid] = Located(
                    oid,
                    size,
                    is_removed,
                    reason,
                    [],
                    [],
                    is_removed and is_collected,
                    math.inf if unused is None else unused,
                )
            if name is not None:
                (located.damaged if is_doubted else located.locations).append(BlobLocation(store_id, name))
        return [list(row.values()) for row in found]
