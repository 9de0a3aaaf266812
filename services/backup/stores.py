"""The places of an installation's data: its database, and the stores with the bytes of objects."""

from dataclasses import dataclass

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncEngine

from services.backup.database import acting_for
from services.backup.errors import BackupError
from services.common.errors import ServiceError
from services.database.versions import RESTORING, version_of
from services.storage.backends.base import Backend
from services.storage.backends.opening import open_backend
from services.storage.index.models import SCHEMA_NAME as STORAGE

_FIRST = (1, "first")
_STORES = text("SELECT id, name, url FROM storage.stores ORDER BY is_primary DESC, id")


@dataclass(frozen=True)
class Store:
    """A store: its row in the table of stores, and its backend."""

    id: int
    name: str
    backend: Backend


@dataclass(frozen=True)
class Source:
    """The database and stores to back up, restore to or check. There is at least one store; the first is primary."""

    engine: AsyncEngine
    stores: tuple[Store, ...]

    @property
    def primary(self) -> Store:
        """The store that takes uploads."""
        return self.stores[0]


async def open_target(engine: AsyncEngine, storage_url: str) -> Source:
    """Return the target of a restore, with the one store of the settings. Raises the errors of `open_backend`."""
    return Source(engine, (Store(*_FIRST, await open_backend(storage_url)),))


async def open_source(engine: AsyncEngine, storage_url: str) -> Source:
    """Return the database with all its stores; if it has no tables, with the one store of the settings.

    Raises `BackupError` if a store cannot be opened, or if the tables are older than the table of stores.
    """
    async with engine.begin() as connection:
        version = await version_of(connection, STORAGE)
        if version in (None, RESTORING):
            return await open_target(engine, storage_url)
        if await connection.scalar(text("SELECT to_regclass('storage.stores')")) is None:
            raise BackupError(f"the schema {STORAGE} is at revision {version}: run `towpath migrate` first")
        async with acting_for(connection, STORAGE):
            rows = (await connection.execute(_STORES)).all()
    return Source(
        engine, tuple([Store(row.id, row.name, await _open(row.name, row.url or storage_url)) for row in rows])
    )


async def _open(name: str, url: str) -> Backend:
    try:
        return await open_backend(url)
    except (ValueError, OSError) as error:
        raise BackupError(f"the store {name} cannot be opened: {error}") from error
    except ServiceError as error:
        raise BackupError(f"the store {name} cannot be opened: {error.message}") from error
