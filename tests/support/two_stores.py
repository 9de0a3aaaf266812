"""An installation at rest whose bytes lie in two stores on disks, made without its services."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncEngine

from services.database.migrations import create_operator_engine
from services.storage.backends.disk import DiskBackend
from services.storage.blob_names import new_name
from tests.support.backup import Place
from tests.support.storage import oid_of

FIRST, SECOND = 1, 2


class TwoStores:
    """The first is that of the settings and the primary, the second is called `second`."""

    def __init__(self, place: Place, engine: AsyncEngine) -> None:
        self.place = place
        self.second = place.folder / "second"
        self._engine = engine
        self._disks = {FIRST: DiskBackend(place.bytes), SECOND: DiskBackend(self.second)}

    async def sql(self, statement: str, **parameters: object) -> Sequence[Any]:
        """Execute a statement and return its rows."""
        async with self._engine.begin() as connection:
            result = await connection.execute(text(statement), parameters)
            return result.all() if result.returns_rows else []

    async def hold(self, data: bytes) -> str:
        """Let a repository hold an object whose bytes are nowhere yet, and return its oid."""
        insert = "INSERT INTO storage.objects (repository_id, oid, size) VALUES (1, :oid, :size)"
        await self.sql(insert, oid=oid_of(data), size=len(data))
        return oid_of(data)

    async def put(self, store: int, oid: str, data: bytes | None, *, damaged: bool = False) -> str:
        """Name an object's bytes in a store, put these there, whatever they are, and return the name."""
        name = new_name(oid)
        insert = "INSERT INTO storage.contents (store_id, oid, name, is_doubted) VALUES (:store, :oid, :name, :damaged)"
        await self.sql(insert, store=store, oid=oid, name=name, damaged=damaged)
        if data is not None:
            await self.lay(store, name, data)
        return name

    async def lay(self, store: int, name: str, data: bytes) -> None:
        """Put bytes into a store."""
        await self._disks[store].put({name: data})

    async def make_second_primary(self) -> None:
        """Let the second be the primary."""
        await self.sql("UPDATE storage.stores SET is_primary = false")
        await self.sql("UPDATE storage.stores SET is_primary = true WHERE id = :id", id=SECOND)

    async def damaged(self) -> set[str]:
        """Return the names that are marked as damaged."""
        return {row.name for row in await self.sql("SELECT name FROM storage.contents WHERE is_doubted")}


@asynccontextmanager
async def two_stores(place: Place) -> AsyncIterator[TwoStores]:
    """Make them in a database."""
    place.folder.mkdir(parents=True, exist_ok=True)
    async with stores_of(place) as stores:
        insert = "INSERT INTO storage.stores (name, url, is_primary) VALUES ('second', :url, false)"
        await stores.sql(insert, url=stores.second.as_uri())
        yield stores


@asynccontextmanager
async def stores_of(place: Place) -> AsyncIterator[TwoStores]:
    """Look at what is in a database."""
    engine = create_operator_engine(place.database_url, "test")
    try:
        yield TwoStores(place, engine)
    finally:
        await engine.dispose()


def bytes_in(root: Path) -> dict[str, bytes]:
    """Return what lies below the root of a disk store, by name."""
    return {path.name: path.read_bytes() for path in (root / "objects").rglob("*") if path.is_file()}
