"""Migrations of a service's schema, as a command and never at a replica's start.

Each service has a folder `migrations` with `versions/`; all are run through the one environment in this package.
"""

import asyncio
from dataclasses import dataclass
from pathlib import Path

from alembic import command
from alembic.config import Config
from alembic.script import ScriptDirectory
from pydantic import SecretStr
from sqlalchemy import Connection, MetaData, text
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, create_async_engine
from sqlalchemy.pool import NullPool
from tenacity import AsyncRetrying, retry_if_exception, stop_after_delay, wait_fixed

from services.common.errors import Reason, Unavailable
from services.database.engine import CONNECT_SECONDS, parse_url, role_of
from services.database.transactions import is_transient

_ENVIRONMENT = Path(__file__).parent / "environment"
_LOCK_SECONDS = 60
_STATEMENT_SECONDS = 600
_PAUSE_SECONDS = 0.5


@dataclass(frozen=True)
class Schema:
    """One service's tables: the schema's name, what the tables should be, and where the versions lie."""

    name: str
    metadata: MetaData
    versions: Path


def _config(schema: Schema) -> Config:
    config = Config()
    config.set_main_option("script_location", str(_ENVIRONMENT).replace("%", "%%"))
    config.set_main_option("version_locations", str(schema.versions).replace("%", "%%"))
    config.set_main_option("path_separator", "newline")
    config.attributes["schema"] = schema
    return config


def _upgrade(connection: Connection, schema: Schema) -> None:
    config = _config(schema)
    config.attributes["connection"] = connection
    command.upgrade(config, "head")


async def migrate(url: SecretStr, schema: Schema, *, wait_seconds: float = 0.0) -> None:
    """Make the schema and its role where they are missing, and bring the tables to the newest version.

    One migration runs at a time; others wait for it. All or nothing: a failure leaves the version as it was.
    The user of the URL must be allowed to make schemas in the database and, the first time, roles.
    Raises `Unavailable` where Postgres does not answer for `wait_seconds`.
    """
    engine = create_async_engine(
        parse_url(url),
        poolclass=NullPool,
        connect_args={
            "timeout": CONNECT_SECONDS,
            "command_timeout": _STATEMENT_SECONDS,
            "server_settings": {"application_name": "towpath-migrate", "timezone": "UTC"},
        },
    )
    role = role_of(schema.name)
    try:
        await _reach(engine, wait_seconds)
        async with engine.begin() as connection:
            await connection.execute(text(f"SET LOCAL lock_timeout = '{_LOCK_SECONDS}s'"))
            await connection.execute(text(f"SET LOCAL statement_timeout = '{_STATEMENT_SECONDS}s'"))
            await connection.execute(text("SELECT pg_advisory_xact_lock(hashtextextended('towpath-migrate', 0))"))
            await _ensure_role_and_schema(connection, role, schema.name)
            await connection.execute(text(f'SET LOCAL ROLE "{role}"'))
            await connection.execute(text(f'SET LOCAL search_path = "{schema.name}"'))
            await connection.run_sync(_upgrade, schema)
    finally:
        await engine.dispose()


async def _reach(engine: AsyncEngine, seconds: float) -> None:
    """Wait until Postgres takes connections: it may be starting just now."""
    attempts = AsyncRetrying(
        retry=retry_if_exception(is_transient),
        stop=stop_after_delay(seconds),
        wait=wait_fixed(_PAUSE_SECONDS),
        sleep=asyncio.sleep,
        reraise=True,
    )
    try:
        async for attempt in attempts:
            with attempt:
                async with engine.connect():
                    pass
    except Exception as error:  # is_transient tells which; the rest goes on its way
        if is_transient(error):
            where = engine.url.render_as_string(hide_password=True)
            raise Unavailable(Reason.UNAVAILABLE, f"the database {where} does not answer: {error}") from error
        raise


async def _ensure_role_and_schema(connection: AsyncConnection, role: str, schema: str) -> None:
    known = await connection.scalar(text("SELECT 1 FROM pg_roles WHERE rolname = :role"), {"role": role})
    if not known:
        await connection.execute(text(f'CREATE ROLE "{role}" NOLOGIN'))
    member = await connection.scalar(text("SELECT pg_has_role(current_user, :role, 'MEMBER')"), {"role": role})
    if not member or not known:
        await connection.execute(text(f'GRANT "{role}" TO CURRENT_USER'))
    present = await connection.scalar(text("SELECT 1 FROM pg_namespace WHERE nspname = :name"), {"name": schema})
    if not present:
        await connection.execute(text(f'CREATE SCHEMA "{schema}" AUTHORIZATION "{role}"'))


def newest_version(schema: Schema) -> str | None:
    """Return the version that `migrate` brings the schema to; it reads the versions' files."""
    return ScriptDirectory.from_config(_config(schema)).get_current_head()


async def is_at(connection: AsyncConnection, schema: Schema, version: str | None) -> bool:
    """Tell whether the tables of the schema are at this version."""
    table = f"{schema.name}.alembic_version"
    if await connection.scalar(text("SELECT to_regclass(:table)"), {"table": table}) is None:
        return False
    return bool(await connection.scalar(text(f"SELECT version_num FROM {table}")) == version)  # noqa: S608 - our own name
