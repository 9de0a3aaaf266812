"""The tables and sequences of all services that a backup copies, and the order in which they can be loaded."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from graphlib import TopologicalSorter
from typing import Any

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection

from services.database.engine import role_of
from services.database.versions import Schema
from services.locks.models import SCHEMA as LOCKS
from services.storage.index.schema import SCHEMA as STORAGE

SCHEMAS: Mapping[str, Schema] = {schema.name: schema for schema in (STORAGE, LOCKS)}

COPY_SECONDS = 24 * 3600.0
"""The timeout, in seconds, for copying the rows of one table."""

_TABLES = text(
    "SELECT n.nspname, c.relname, array_agg(a.attname::text ORDER BY a.attnum)"
    " FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace"
    " JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped AND a.attgenerated = ''"
    " WHERE c.relkind IN ('r', 'p') AND NOT c.relispartition"
    " AND n.nspname = ANY(:schemas) AND c.relname <> 'alembic_version'"
    " GROUP BY 1, 2 ORDER BY 1, 2"
)
_SEQUENCES = text(
    "SELECT n.nspname, c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace"
    " WHERE c.relkind = 'S' AND n.nspname = ANY(:schemas) ORDER BY 1, 2"
)
_REFERENCES = text(
    "SELECT n.nspname, c.relname, fn.nspname, fc.relname FROM pg_constraint k"
    " JOIN pg_class c ON c.oid = k.conrelid JOIN pg_namespace n ON n.oid = c.relnamespace"
    " JOIN pg_class fc ON fc.oid = k.confrelid JOIN pg_namespace fn ON fn.oid = fc.relnamespace"
    " WHERE k.contype = 'f' AND k.conrelid <> k.confrelid AND n.nspname = ANY(:schemas)"
)


@dataclass(frozen=True, order=True)
class Relation:
    """A table or a sequence."""

    schema: str
    name: str

    @property
    def quoted(self) -> str:
        """Its name in SQL."""
        return f'"{self.schema}"."{self.name}"'


_COUNTED = frozenset(
    Relation(schema, name)
    for schema, names in (
        ("locks", ("locks_per_repository", "locks_per_user", "lock_events", "hook_deliveries")),
        ("storage", ("usage_deltas", "usage_totals", "user_totals", "reservations")),
    )
    for name in names
)
"""Tables that triggers fill from the rows of other tables, also during a restore; and one for uploads that go on."""

_PASSING = frozenset(
    Relation(schema, name)
    for schema, names in (
        ("locks", ("rate_states",)),
        ("storage", ("collections", "retained_oids", "partial_uploads", "partial_upload_parts")),
    )
    for name in names
)
"""Tables whose rows are of no use but to running processes, and may be many; parts of uploads are in no backup."""


async def tables(connection: AsyncConnection) -> dict[Relation, tuple[str, ...]]:
    """Return all tables and their columns, except Alembic's, those of `_COUNTED`, and those of `_PASSING`."""
    rows = await connection.execute(_TABLES, {"schemas": list(SCHEMAS)})
    found = {Relation(schema, name): tuple(columns) for schema, name, columns in rows}
    return {table: columns for table, columns in found.items() if table not in _COUNTED | _PASSING}


async def sequences(connection: AsyncConnection) -> list[Relation]:
    """Return all sequences, including those of identity columns."""
    return [Relation(*row) for row in await connection.execute(_SEQUENCES, {"schemas": list(SCHEMAS)})]


async def loading_order(connection: AsyncConnection) -> list[Relation]:
    """Return all tables, each after the tables that it refers to."""
    order: TopologicalSorter[Relation] = TopologicalSorter({table: [] for table in await tables(connection)})
    for schema, name, other_schema, other in await connection.execute(_REFERENCES, {"schemas": list(SCHEMAS)}):
        order.add(Relation(schema, name), Relation(other_schema, other))
    return [table for table in order.static_order() if table not in _COUNTED | _PASSING]


@asynccontextmanager
async def acting_for(connection: AsyncConnection, schema: str) -> AsyncIterator[None]:
    """Act as the role that owns a schema, within the transaction."""
    await connection.execute(text(f'SET LOCAL ROLE "{role_of(schema)}"'))
    yield
    await connection.execute(text("SET LOCAL ROLE NONE"))


async def driver_of(connection: AsyncConnection) -> Any:  # noqa: ANN401 - asyncpg has no types
    """Return asyncpg's connection, in the same transaction, because SQLAlchemy does not support COPY."""
    return (await connection.get_raw_connection()).driver_connection
