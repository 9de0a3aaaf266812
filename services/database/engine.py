"""Connections to Postgres: one pool a process, every statement with a deadline, under the service's own role."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from asyncpg import IntegrityConstraintViolationError
from pydantic import SecretStr
from sqlalchemy import event
from sqlalchemy.engine import ExceptionContext
from sqlalchemy.exc import IntegrityError
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine
from sqlalchemy.pool import NullPool

from services.common.observability import tracing
from services.database.sessions import CONNECT_SECONDS, Sessions
from services.database.url import DatabaseUrl

DRIVER = "postgresql+asyncpg://"
"""The URL of every engine: it names the driver alone, which gets the rest as `DatabaseUrl.arguments`."""

STATEMENT_SECONDS = 10.0

READ_ONLY = "25006"
"""The SQLSTATE of a write that is refused because Postgres is a standby or the session is read-only."""


def role_of(schema: str) -> str:
    """Return the role that owns a service's schema and that its connections act as."""
    return f"towpath_{schema}"


def sqlstate_of(error: BaseException | None) -> str:
    """Return the SQLSTATE that Postgres gave an error of SQLAlchemy or of the driver; empty if it gave none."""
    return str(getattr(getattr(error, "orig", error), "sqlstate", None) or "")


def violated(error: IntegrityError | IntegrityConstraintViolationError) -> str:
    """Return the name of the violated constraint, such as `uq_users_name`; empty if Postgres names none."""
    cause: BaseException | None = error
    if isinstance(error, IntegrityError):
        cause = error.orig.__cause__ if error.orig else None
    return getattr(cause, "constraint_name", None) or ""


def _end_read_only(context: ExceptionContext) -> None:
    """Invalidate the pool's connections, because a session may stay read-only for longer than Postgres."""
    if sqlstate_of(context.original_exception) == READ_ONLY:
        context.is_disconnect = True


def create_engine(url: SecretStr, *, schema: str, pool_size: int) -> AsyncEngine:
    """Return the engine of a service whose tables are in `schema`; the caller disposes of it.

    Its pool has at most `pool_size` connections; a caller waits for a connection at most `CONNECT_SECONDS`.
    """
    engine = create_async_engine(
        DRIVER,
        pool_size=pool_size,
        max_overflow=0,
        pool_timeout=CONNECT_SECONDS,
        # A connection that died unseen is found by its first statement, and the transaction is repeated
        # (database.transactions): a ping before each would cost a round trip.
        pool_pre_ping=False,
        # Tracebacks are logged, and must not contain values.
        hide_parameters=True,
        connect_args=_connect_args(url, schema),
    )
    event.listen(engine.sync_engine, "handle_error", _end_read_only)
    if tracing.is_on():
        from services.database.spans import trace_statements

        trace_statements(engine)
    return engine


@asynccontextmanager
async def driver_connection(url: SecretStr, *, schema: str) -> AsyncIterator[Any]:
    """Open an asyncpg connection, outside of the pool and of any transaction, for features that SQLAlchemy lacks.

    On exit the connection is terminated, even if a statement still runs on it.
    """
    engine = create_async_engine(
        DRIVER, poolclass=NullPool, hide_parameters=True, connect_args=_connect_args(url, schema)
    )
    async with engine.connect() as connection:
        driver: Any = (await connection.get_raw_connection()).driver_connection
        try:
            yield driver
        finally:
            driver.terminate()


def _connect_args(url: SecretStr, schema: str) -> dict[str, Any]:
    session = f"""
        SET ROLE "{role_of(schema)}"; SET search_path = "{schema}";
        SET statement_timeout = {STATEMENT_SECONDS * 1000:.0f}; SET idle_in_transaction_session_timeout = 60000
    """
    return {
        **DatabaseUrl.parse(url).arguments(),
        "async_creator_fn": Sessions(session).open,
        "timeout": CONNECT_SECONDS,
        "command_timeout": STATEMENT_SECONDS,
        "server_settings": {"application_name": f"towpath-{schema}", "timezone": "UTC"},
    }
