"""Migrations of a service's schema, run by a command and never at a replica's start.

Each service has a folder `migrations` with `versions/`; the one Alembic environment in this package runs them all.
"""

import asyncio
from pathlib import Path

from alembic import command
from alembic.config import Config
from alembic.script import ScriptDirectory
from alembic.util import CommandError
from pydantic import SecretStr
from sqlalchemy import Connection, text
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, create_async_engine
from tenacity import AsyncRetrying, retry_if_exception, stop_after_delay, wait_fixed

from services.common.errors import Reason, Unavailable
from services.common.migration_versions import known_versions
from services.database.concurrent_indexes import build_indexes
from services.database.engine import DRIVER, role_of
from services.database.sessions import CONNECT_SECONDS, Sessions
from services.database.transactions import is_transient
from services.database.url import DatabaseUrl
from services.database.versions import (
    OLDEST_SERVICE_COLUMN,
    RESTORING,
    Schema,
    is_newer,
    refusal,
    standing_of,
)

_ENVIRONMENT = Path(__file__).parent / "environment"
_LOCK_SECONDS = 60
_STATEMENT_SECONDS = 600
_RETRY_SECONDS = 0.5
_POOL_SIZE = 4

MIGRATION_KEY = "hashtextextended('towpath-migrate', 0)"
"""The key, in SQL, of the advisory lock under which tables are created and changed."""


def _config(schema: Schema) -> Config:
    config = Config()
    config.set_main_option("script_location", str(_ENVIRONMENT).replace("%", "%%"))
    config.set_main_option("version_locations", str(schema.versions).replace("%", "%%"))
    config.set_main_option("path_separator", "newline")
    config.attributes["schema"] = schema
    return config


def _upgrade(connection: Connection, schema: Schema, version: str) -> None:
    config = _config(schema)
    config.attributes["connection"] = connection
    command.upgrade(config, version)


def create_operator_engine(url: SecretStr, name: str) -> AsyncEngine:
    """Return an engine for an operator's command; it acts as the URL's own user, and the caller disposes of it.

    A statement takes at most ten minutes.
    """
    return create_async_engine(
        DRIVER,
        pool_size=_POOL_SIZE,
        connect_args={
            **DatabaseUrl.parse(url).arguments(),
            "async_creator_fn": Sessions().open,
            "timeout": CONNECT_SECONDS,
            "command_timeout": _STATEMENT_SECONDS,
            "server_settings": {"application_name": f"towpath-{name}", "timezone": "UTC", "datestyle": "ISO"},
        },
    )


async def migrate(url: SecretStr, schema: Schema, *, wait_seconds: float = 0.0) -> str | None:
    """Create the schema and its role if they are missing, and migrate the tables to the newest version.

    One migration runs at a time; others wait for it. It is atomic: a failure leaves the version as it was. Indexes of
    big tables are built afterwards. The result is a note on one that could not be built, or on tables that a newer
    Towpath has migrated, which stay as they are; otherwise it is None. The user of the URL must be allowed to create
    schemas in the database and, the first time, roles. Raises ValueError if a restore into the database has not ended,
    if the tables are too new for this version, or if a pooler shares sessions among clients; `Unavailable` if Postgres
    does not answer for `wait_seconds`.
    """
    engine = create_operator_engine(url, "migrate")
    try:
        await _reach(engine, DatabaseUrl.parse(url).place, wait_seconds)
        async with engine.begin() as connection:
            await connection.execute(text(f"SET LOCAL statement_timeout = '{_STATEMENT_SECONDS}s'"))
            await _take_turn(connection)
            standing = await standing_of(connection, schema.name)
            if standing.version == RESTORING:
                raise ValueError("a restore into this database has not ended: run `towpath restore` again")
            known = known_versions(schema.versions)
            if is_newer(standing, known):
                if (why := refusal(schema.name, standing, known)) is not None:
                    raise ValueError(why)
                return (
                    f"the tables are at version {standing.version}, newer than the {max(known)} "
                    "of this Towpath, and are used as they are"
                )
            await upgrade(connection, schema)
        return await build_indexes(engine, schema)
    finally:
        await engine.dispose()


async def _reach(engine: AsyncEngine, place: str, seconds: float) -> None:
    """Wait until Postgres accepts connections, because it may still be starting."""
    attempts = AsyncRetrying(
        retry=retry_if_exception(is_transient),
        stop=stop_after_delay(seconds),
        wait=wait_fixed(_RETRY_SECONDS),
        sleep=asyncio.sleep,
        reraise=True,
    )
    try:
        async for attempt in attempts:
            with attempt:
                async with engine.connect():
                    pass
    except Exception as error:  # all but transient errors are raised as they are
        if is_transient(error):
            raise Unavailable(Reason.UNAVAILABLE, f"the database {place} does not answer: {error}") from error
        raise


async def upgrade(connection: AsyncConnection, schema: Schema, version: str = "head") -> None:
    """Migrate up to a version in the transaction of the connection; afterwards it acts as the URL's user again."""
    await _take_turn(connection)
    await _act_as_owner(connection, schema.name)
    await connection.execute(text(f'SET LOCAL search_path = "{schema.name}"'))
    await connection.run_sync(_upgrade, schema, version)
    await _keep_oldest_service(connection, schema, version)
    await connection.execute(text("SET LOCAL ROLE NONE"))


async def _take_turn(connection: AsyncConnection) -> None:
    await connection.execute(text(f"SET LOCAL lock_timeout = '{_LOCK_SECONDS}s'"))
    await connection.execute(text(f"SELECT pg_advisory_xact_lock({MIGRATION_KEY})"))


async def _keep_oldest_service(connection: AsyncConnection, schema: Schema, version: str) -> None:
    """Record, beside the version, the oldest version of services that can use the tables.

    An older Towpath, which does not know these migrations, reads it; see `services.database.versions`. This is the last
    step, because adding the column locks readers out for a moment.
    """
    table = f'"{schema.name}".alembic_version'
    known = await connection.scalar(
        text(
            "SELECT 1 FROM pg_attribute WHERE attrelid = CAST(:table AS regclass) AND attname = :column"
            " AND NOT attisdropped"
        ),
        {"table": table, "column": OLDEST_SERVICE_COLUMN},
    )
    if not known:
        await connection.execute(text(f"ALTER TABLE {table} ADD COLUMN {OLDEST_SERVICE_COLUMN} varchar(32)"))
    change = (
        f"UPDATE {table} SET {OLDEST_SERVICE_COLUMN} = :oldest"  # noqa: S608 - our own names
        f" WHERE {OLDEST_SERVICE_COLUMN} IS DISTINCT FROM CAST(:oldest AS varchar)"
    )
    await connection.execute(text(change), {"oldest": oldest_service(schema, version)})


def oldest_service(schema: Schema, version: str = "head") -> str | None:
    """Return the oldest version whose services can use the tables of a version; None if all can.

    A migration that contracts names it in `OLDEST_SERVICE`; by default it is the version that the migration leads to.
    """
    for script in ScriptDirectory.from_config(_config(schema)).walk_revisions("base", version):
        oldest: str | None = getattr(script.module, "OLDEST_SERVICE", None)
        contracts: str = getattr(script.module, "CONTRACTS", "")
        if oldest is not None or contracts:
            return oldest or script.revision
    return None


async def mark_restoring(connection: AsyncConnection, schema: Schema) -> None:
    """Give a schema without tables the version `RESTORING`; create the schema and its role if they are missing."""
    await _act_as_owner(connection, schema.name)
    table = f'"{schema.name}".alembic_version'
    await connection.execute(text(f"CREATE TABLE {table} (version_num varchar(32) NOT NULL)"))
    await connection.execute(text(f"INSERT INTO {table} VALUES ('{RESTORING}')"))  # noqa: S608 - our own names
    await connection.execute(text("SET LOCAL ROLE NONE"))


async def _act_as_owner(connection: AsyncConnection, schema: str) -> None:
    """Act as the role that owns the schema, in this transaction; create both if they are missing."""
    role = role_of(schema)
    known = await connection.scalar(text("SELECT 1 FROM pg_roles WHERE rolname = :role"), {"role": role})
    if not known:
        await connection.execute(text(f'CREATE ROLE "{role}" NOLOGIN'))
    member = await connection.scalar(text("SELECT pg_has_role(current_user, :role, 'MEMBER')"), {"role": role})
    if not member or not known:
        await connection.execute(text(f'GRANT "{role}" TO CURRENT_USER'))
    present = await connection.scalar(text("SELECT 1 FROM pg_namespace WHERE nspname = :name"), {"name": schema})
    if not present:
        await connection.execute(text(f'CREATE SCHEMA "{schema}" AUTHORIZATION "{role}"'))
    await connection.execute(text(f'SET LOCAL ROLE "{role}"'))


def knows(schema: Schema, version: str) -> bool:
    """Return whether `upgrade` can migrate the schema to this version, and on to the newest."""
    try:
        return ScriptDirectory.from_config(_config(schema)).get_revision(version) is not None
    except CommandError:
        return False
