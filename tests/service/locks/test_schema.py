"""The migrations."""

from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext
from pydantic import SecretStr
from sqlalchemy import Connection, text
from towpath.access.v1 import access_service_pb2 as access

from services.common.errors import Reason, Unauthenticated
from services.common.migration_versions import newest_version
from services.database.engine import create_engine
from services.database.migrations import create_operator_engine, migrate, upgrade
from services.database.versions import version_of
from services.locks.models import SCHEMA
from tests.support.locks import refused, running_locks
from tests.support.waiting import until


def _differences(connection: Connection) -> object:
    # The partitions of a table are no models.
    opts = {"include_name": lambda name, kind, _parents: kind != "table" or not name.startswith("audit_events_")}
    return compare_metadata(MigrationContext.configure(connection, opts=opts), SCHEMA.metadata)


@pytest.mark.empty_database
async def test_the_migrated_tables_are_the_models(database_url: SecretStr) -> None:
    """Nothing is left to migrate, and migrating again changes nothing."""
    await migrate(database_url, SCHEMA)
    await migrate(database_url, SCHEMA)
    engine = create_engine(database_url, schema=SCHEMA.name, pool_size=1)
    async with engine.connect() as connection:
        assert await connection.run_sync(_differences) == []
        assert await version_of(connection, SCHEMA.name) == newest_version(SCHEMA.versions)
    await engine.dispose()


@pytest.mark.empty_database
async def test_tokens_of_before_have_no_use_that_is_known(database_url: SecretStr, tmp_path: Path) -> None:
    """They work as ever, their uses are known from then on, and they can be revoked."""
    engine = create_operator_engine(database_url, "test")
    async with engine.begin() as connection:
        await upgrade(connection, SCHEMA, "0004")
        await connection.execute(text("INSERT INTO locks.users (name, administrator) VALUES ('alice', false)"))
        tokens = (
            "INSERT INTO locks.tokens (user_id, name, token_hash) SELECT id, 'old', sha256('tp_old') FROM locks.users"
        )
        await connection.execute(text(tokens))
    await engine.dispose()
    await migrate(database_url, SCHEMA)
    async with running_locks(database_url, tmp_path) as locks:

        async def is_used() -> bool:
            [token] = await locks.tokens("alice")
            return token.HasField("last_used_at")

        assert not await is_used()
        show = access.AuthenticateRequest(token="tp_old")
        assert (await locks.peer.call(locks.access.Authenticate, show)).user_name == "alice"
        await until(is_used)
        await locks.revoke_token("alice", "old")
        with refused(Unauthenticated, Reason.BAD_CREDENTIALS) as caught:
            await locks.peer.call(locks.access.Authenticate, show)
        assert caught.value.metadata == {"revoked": "old"}


async def test_ids_and_names(database_url: SecretStr) -> None:
    """Ids are 64-bit identities; every text compares by its bytes, whatever the database's collation."""
    engine = create_engine(database_url, schema=SCHEMA.name, pool_size=1)
    columns = text(
        "SELECT column_name, data_type, collation_name FROM information_schema.columns"
        " WHERE table_schema = 'locks' AND table_name <> 'alembic_version'"
        # Requests have ids of their own kind, and clients choose the ids of their programs.
        " AND column_name NOT IN ('request_id', 'client_id')"
    )
    async with engine.connect() as connection:
        found = (await connection.execute(columns)).all()
    await engine.dispose()
    assert {kind for name, kind, _ in found if name == "id" or name.endswith("_id")} == {"bigint"}
    assert {collation for _, kind, collation in found if kind == "text"} == {"C"}
