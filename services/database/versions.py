"""The versions of a service's tables, expected and actual. The module does not import Alembic."""

from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from sqlalchemy import MetaData, text
from sqlalchemy.ext.asyncio import AsyncConnection

RESTORING = "restoring"
"""The version of a schema that a restore is about to fill: no service serves it, and no command migrates it."""

OLDEST_SERVICE_COLUMN = "oldest_service"
"""The column beside the version, in Alembic's table, that every version of Towpath reads; migrations maintain it."""


@dataclass(frozen=True)
class Schema:
    """One service's tables: the schema's name, the tables' metadata, and the folder of the migrations."""

    name: str
    metadata: MetaData
    versions: Path


class Standing(NamedTuple):
    """The recorded version of a schema's tables, and the oldest version whose services can use them."""

    version: str | None
    oldest_service: str | None = None


async def standing_of(connection: AsyncConnection, schema: str) -> Standing:
    """Return the standing of the schema's tables; its version is None if there are no tables."""
    table = f"{schema}.alembic_version"
    if await connection.scalar(text("SELECT to_regclass(:table)"), {"table": table}) is None:
        return Standing(None)
    # Through JSON, because the column does not exist before a migration has added it.
    query = f"SELECT version_num, to_jsonb(v) ->> '{OLDEST_SERVICE_COLUMN}' FROM {table} v"  # noqa: S608 - our own names
    row = (await connection.execute(text(query))).first()
    return Standing(*row) if row is not None else Standing(None)


async def version_of(connection: AsyncConnection, schema: str) -> str | None:
    """Return the version of the schema's tables; None if there are none."""
    return (await standing_of(connection, schema)).version


def is_newer(standing: Standing, known: Collection[str]) -> bool:
    """Return whether a newer Towpath migrated the tables, to a version beyond those `known` here."""
    return standing.version not in (None, RESTORING) and standing.version not in known


def refusal(name: str, standing: Standing, known: Collection[str]) -> str | None:
    """Return in one line why a service that knows these versions cannot use a schema's tables; None if it can.

    Newer tables have all that an older service needs, unless they name an oldest version that the service does not
    know.
    """
    newest = max(known)
    if not is_newer(standing, known):
        if standing.version == newest:
            return None
        return f"the schema {name} is not at its newest version: run `towpath migrate`"
    if standing.oldest_service is None or standing.oldest_service in known:
        return None
    return (
        f"the schema {name} is at version {standing.version} and can be used from version "
        f"{standing.oldest_service} on; this Towpath knows it up to {newest}: start a newer one"
    )
