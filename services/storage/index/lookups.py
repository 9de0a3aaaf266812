"""Batched lookups in the index: concurrent lookups share one statement."""

from collections.abc import Collection, Sequence

from services.common.concurrency.batcher import Batcher
from services.database.transactions import Database
from services.storage.index import objects
from services.storage.index.objects import Located, LookupKey


class ObjectLookups:
    """Looks objects up. Its owner closes it."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._batcher = Batcher(self._locate)

    async def locate(self, repository_id: int, oids: Collection[str]) -> list[Located]:
        """Return those of these objects that exist, held or removed, with the locations of their blobs, as of now.

        Raises `Unavailable`.
        """
        return await self._batcher.submit(LookupKey(repository_id, list(oids)))

    async def close(self) -> None:
        """Cancel the lookups that are in flight or waiting."""
        await self._batcher.close()

    async def _locate(self, group: Sequence[LookupKey]) -> list[list[Located]]:
        return await objects.locate(self._database, group, patient=len(group) == 1)
