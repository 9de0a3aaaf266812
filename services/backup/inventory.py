"""The inventory in the index: the objects held or in a bin, their blob names in stores, and states of blob names."""

from collections.abc import AsyncGenerator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from sqlalchemy import text

from services.backup.database import acting_for
from services.backup.object_list import KEPT, Entry
from services.backup.stores import Source, Store
from services.storage.index.models import SCHEMA_NAME as STORAGE
from services.storage.index.writer_lease import is_expired

_PAGE = 10_000

_BYTES = text(
    "SELECT sum(o.size) FROM storage.objects o LEFT JOIN storage.contents c USING (oid)"  # noqa: S608 - our words
    f" WHERE {KEPT}"
)
_ENTRIES = text(
    "SELECT h.oid, h.size, coalesce(h.name, ''), NOT EXISTS (SELECT FROM storage.contents e"  # noqa: S608 - our words
    "  WHERE e.oid = h.oid AND e.store_id = ANY(CAST(:before AS smallint[]))), coalesce(h.is_doubted, false)"
    " FROM (SELECT o.oid, max(o.size) AS size, max(c.name) AS name, bool_or(c.is_doubted) AS is_doubted"
    "  FROM storage.objects o LEFT JOIN storage.contents c ON c.oid = o.oid AND c.store_id = :store"
    f"  WHERE {KEPT} AND o.oid > :after AND (c.name IS NOT NULL OR CAST(:is_primary AS boolean)"
    "   AND NOT EXISTS (SELECT FROM storage.contents e"
    "    WHERE e.oid = o.oid AND e.store_id = ANY(ARRAY(SELECT id FROM storage.stores))))"
    "  GROUP BY o.oid ORDER BY o.oid LIMIT :limit) h ORDER BY h.oid"
)
_OBJECT = text(
    "SELECT o.size, c.store_id, c.name"  # noqa: S608 - our words
    f" FROM (SELECT max(size) AS size FROM storage.objects WHERE oid = :oid AND {KEPT}) o"
    " LEFT JOIN storage.contents c ON c.oid = :oid AND c.store_id = ANY(ARRAY(SELECT id FROM storage.stores))"
)
_REPOSITORIES = text(
    "SELECT coalesce(r.name, 'repository ' || o.repository_id) FROM storage.objects o"  # noqa: S608 - our words
    " LEFT JOIN locks.repositories r ON r.id = o.repository_id"
    f" WHERE o.oid = :oid AND {KEPT} ORDER BY 1"
)
# One statement, because a blob name moves from one table to the next.
_STATE = text(
    "SELECT EXISTS (SELECT FROM storage.uploads WHERE store_id = :store AND name = :name) OR"
    "  EXISTS (SELECT FROM storage.contents WHERE store_id = :store AND oid = :oid AND name = :name) OR"
    "  EXISTS (SELECT FROM storage.partial_upload_parts WHERE store_id = :store AND name = :name),"
    " EXISTS (SELECT FROM storage.discards WHERE store_id = :store AND name = :name)"
)
_WRITERS = text("SELECT writer, count(*) FROM storage.uploads WHERE writer IS NOT NULL GROUP BY writer")
_PLACES = text(
    "SELECT store_id, name FROM ("
    "  SELECT store_id, name, is_doubted FROM storage.contents"
    "   WHERE store_id = ANY(CAST(:stores AS smallint[])) AND oid = :oid"
    "  UNION ALL SELECT store_id, name, true FROM storage.discards"
    "   WHERE store_id = ANY(CAST(:stores AS smallint[])) AND name >= :oid AND name < :end"
    ") places ORDER BY name <> :name, is_doubted, array_position(CAST(:stores AS smallint[]), store_id)"
)
_DOUBT = text(
    "UPDATE storage.contents SET is_doubted = (name = :bad_name)"
    " WHERE (store_id = :bad_store AND oid = :oid AND name = :bad_name)"
    "  OR (store_id = :good_store AND oid = :oid AND name = :good_name)"
    " RETURNING is_doubted"
)
_BELIEVE = text(
    "UPDATE storage.contents SET is_doubted = false WHERE store_id = :store AND oid = :oid AND name = :name"
)


class ExpectedObject(NamedTuple):
    """An object that a store should have."""

    entry: Entry
    is_first: bool
    """True if the store is the first of the stores that should have the object."""
    is_doubted: bool
    """True if the index records a doubt that the blob in the store is intact."""


@dataclass(frozen=True)
class Held:
    """An object that repositories hold: its size, and its blob name in each store, by the store's id."""

    oid: str
    size: int
    names: Mapping[int, str]


async def held_bytes(source: Source) -> int:
    """Return the approximate number of bytes in all stores together."""
    async with source.engine.begin() as connection, acting_for(connection, STORAGE):
        return int(await connection.scalar(_BYTES) or 0)


async def expected_in(source: Source, store: Store) -> AsyncGenerator[ExpectedObject]:
    """Yield the objects that a store should have, ordered by oid, in a transaction for each page.

    An object that no store has is expected in the primary, under an empty name.
    """
    before = [other.id for other in source.stores[: source.stores.index(store)]]
    parameters = {"store": store.id, "before": before, "is_primary": store == source.primary, "limit": _PAGE}
    last = ""
    while True:
        async with source.engine.begin() as connection, acting_for(connection, STORAGE):
            rows = (await connection.execute(_ENTRIES, {**parameters, "after": last})).all()
        for oid, size, name, is_first, is_doubted in rows:
            yield ExpectedObject(Entry(oid, size, name), is_first, is_doubted)
        if len(rows) < _PAGE:
            return
        last = rows[-1][0]


async def held_object(source: Source, oid: str) -> Held | None:
    """Return the current entry of an object in the index; None if no repository holds it."""
    async with source.engine.begin() as connection, acting_for(connection, STORAGE):
        rows = (await connection.execute(_OBJECT, {"oid": oid})).all()
    size = rows[0].size
    names = {row.store_id: row.name for row in rows if row.store_id is not None}
    return None if size is None else Held(oid, size, names)


async def repositories_of(source: Source, oid: str) -> tuple[str, ...]:
    """Return the names of the repositories that hold an object."""
    async with source.engine.begin() as connection:
        return tuple(await connection.scalars(_REPOSITORIES, {"oid": oid}))


async def is_named(source: Source, store: Store, name: str) -> tuple[bool, bool]:
    """Return whether an object or an upload needs a blob name in a store, and whether its blob is to be deleted."""
    parameters = {"store": store.id, "name": name, "oid": name[:64]}
    async with source.engine.begin() as connection, acting_for(connection, STORAGE):
        needed, discarded = (await connection.execute(_STATE, parameters)).one()
    return needed, discarded


async def abandoned_uploads(source: Source) -> int:
    """Return how many uploads the next sweep gives up because their writer is gone."""
    async with source.engine.begin() as connection:
        async with acting_for(connection, STORAGE):
            writers = [(writer, count) for writer, count in await connection.execute(_WRITERS)]
        return sum([count for writer, count in writers if await is_expired(connection, writer)])


async def places_of(source: Source, entry: Entry) -> list[tuple[Store, str]]:
    """Return the stores and blob names of an object, the entry's own name first, the best of the others next.

    While deletions are barred, blobs that were removed or replaced since the entry was listed are among them.
    """
    if len(source.stores) == 1:
        return [(source.primary, entry.name)]
    stores = {store.id: store for store in source.stores}
    parameters = {"stores": list(stores), "oid": entry.oid, "end": entry.oid + "/", "name": entry.name}
    async with source.engine.begin() as connection, acting_for(connection, STORAGE):
        rows = (await connection.execute(_PLACES, parameters)).all()
    return [(stores[store], name) for store, name in rows] or [(store, entry.name) for store in source.stores]


async def mark_damaged(source: Source, held: Held, *, bad: Store, good: Store | None) -> bool:
    """Record a doubt about an object's blob in the store `bad`; return whether it was recorded.

    The blob in `good` was just read and is intact: the services copy it to `bad`. If no store has an intact blob,
    clients are asked to upload the object like a new one. The doubt is not recorded if another blob has replaced the
    damaged one in `bad` meanwhile.
    """
    parameters = {
        "oid": held.oid,
        "bad_store": bad.id,
        "bad_name": held.names.get(bad.id),
        "good_store": good and good.id,
        "good_name": good and held.names[good.id],
    }
    async with source.engine.begin() as connection, acting_for(connection, STORAGE):
        return True in list(await connection.scalars(_DOUBT, parameters))


async def mark_intact(source: Source, store: Store, entry: Entry) -> None:
    """Withdraw the doubt about an object's blob in a store, because it was just read and is intact."""
    parameters = {"store": store.id, "oid": entry.oid, "name": entry.name}
    async with source.engine.begin() as connection, acting_for(connection, STORAGE):
        await connection.execute(_BELIEVE, parameters)
