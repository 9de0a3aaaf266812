"""Objects looked up in the index: those asked for at once, in one statement."""

from collections.abc import Collection, Sequence

from services.common.concurrency.batcher import Batcher
from services.database.transactions import Database
from services.storage.index import objects
from services.storage.index.objects import Located, LookupKey


class ObjectLookups:
    """Looks objects up. Its owner closes it."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._grouped = Batcher(self._locate)

    async def locate(self, repository_id: int, oids: Collection[str]) -> list[Located]:
        """Return which of these objects there are, held or removed, and where their bytes lie, as of now.

        Raises `Unavailable`.
        """
        return await self._grouped.submit(LookupKey(repository_id, list(oids)))

    async def close(self) -> None:
        """Give up what is under way."""
        await self._grouped.close()

    async def _locate(self, group: Sequence[LookupKey]) -> list[list[Located]]:
        return await objects.locate(self._database, group, patient=len(group) == 1)
