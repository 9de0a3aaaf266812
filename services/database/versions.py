"""The versions of a service's tables: which there should be, and which there is. It imports nothing of Alembic's."""

from dataclasses import dataclass
from pathlib import Path

from sqlalchemy import MetaData, text
from sqlalchemy.ext.asyncio import AsyncConnection

from services.common import revisions

RESTORING = "restoring"
"""The version of a schema whose rows a restore is about to bring: nothing serves or migrates such a schema."""


@dataclass(frozen=True)
class Schema:
    """One service's tables: the schema's name, what the tables should be, and where the versions lie."""

    name: str
    metadata: MetaData
    versions: Path


def newest_version(schema: Schema) -> str:
    """Return the version that `migrate` brings the schema to; it reads the names of the versions' files."""
    return revisions.newest_version(schema.versions)


async def version_of(connection: AsyncConnection, schema: str) -> str | None:
    """Return the version of the schema's tables; None where there are none."""
    table = f"{schema}.alembic_version"
    if await connection.scalar(text("SELECT to_regclass(:table)"), {"table": table}) is None:
        return None
    version: str | None = await connection.scalar(text(f"SELECT version_num FROM {table}"))  # noqa: S608 - our own name
    return version


async def is_at(connection: AsyncConnection, schema: Schema, version: str) -> bool:
    """Tell whether the tables of the schema are at this version."""
    return await version_of(connection, schema.name) == version
