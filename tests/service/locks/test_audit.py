"""The audit log: rows that triggers write, their actors, and their partitions."""

from collections.abc import AsyncIterator, Sequence
from typing import Any

import pytest
from pydantic import SecretStr
from sqlalchemy import text
from sqlalchemy.exc import DBAPIError
from towpath.access.v1 import admin_service_pb2 as admin

from services.database.engine import create_engine
from services.database.migrations import migrate
from services.database.transactions import Database
from services.locks.audit.event_types import EVENT_TYPES
from services.locks.audit.partitions import drop_expired, make_partitions
from services.locks.models import SCHEMA
from tests.service.locks.conftest import Team
from tests.support.locks import RunningLocks

# Tables without a row of the audit log for each change, each with the reason.
NOT_AUDITED = {
    "audit_events": "itself",
    "failed_logins": "counts of strangers",
    "forge_lookups": "a budget",
    "hook_deliveries": "written by triggers and the worker; `hook.redelivered` is recorded by code",
    "identities": "come with their user",
    "lock_events": "a history of its own",
    "locks_per_repository": "counts",
    "locks_per_user": "counts",
    "refusals": "no change",
    "removed_repositories": "the unfinished rest of `repository.deleted`",
    "revoked_tokens": "the rest of `token.deleted`",
    "token_grants": "of a token of an issuer",
    "token_groups": "of a token of an issuer",
    "token_roles": "of a token of a forge",
    "token_uses": "no change",
}


@pytest.fixture
async def database(service: RunningLocks) -> AsyncIterator[Database]:
    """The service's database."""
    database = Database(create_engine(service.database_url, schema="locks", pool_size=1))
    yield database
    await database.close()


async def rows(database: Database, statement: str, **values: object) -> Sequence[Any]:
    """Return the rows of a statement."""
    async with database.engine.begin() as connection:
        return (await connection.execute(text(statement), values)).all()


async def test_every_table_is_audited_or_says_why_not(database: Database) -> None:
    """A new table has to decide."""
    audited = await rows(
        database,
        "SELECT DISTINCT relname FROM pg_trigger JOIN pg_class ON pg_class.oid = tgrelid WHERE tgname LIKE 'audited%'",
    )
    tables = {table.name for table in SCHEMA.metadata.tables.values()}
    assert {name for (name,) in audited} | NOT_AUDITED.keys() == tables
    assert not {name for (name,) in audited} & NOT_AUDITED.keys()


async def test_a_change_has_its_actor_and_both_records(service: RunningLocks, team: Team, database: Database) -> None:
    """The request id is the one of the call, and no hash is in a record."""
    request = admin.UpdateRepositoryRequest(name=team.repository, public=True)
    metadata = [("authorization", f"Bearer {service.admin_token}"), ("x-request-id", "change-7")]
    await service.admin.UpdateRepository(request, metadata=metadata)
    secret = await service.add_token(team.alice_name)
    [change] = await rows(database, "SELECT * FROM audit_events WHERE request_id = 'change-7'")
    assert (change.type, change.actor, change.source) == ("org.towpath.repository.changed", "admin", "admin")
    assert (change.subject, change.repository) == (f"repository {team.repository}", team.repository)
    assert (change.before["public"], change.after["public"]) == (False, True)
    [token] = await rows(
        database, "SELECT * FROM audit_events WHERE subject = :subject", subject=f"token {team.alice_name}/laptop"
    )
    assert token.after["user"] == team.alice_name
    assert token.after.keys().isdisjoint({"token_hash", "secret"})
    assert secret not in str(token.after)


async def test_a_refused_change_has_no_row(service: RunningLocks, team: Team, database: Database) -> None:
    """The row ends with its transaction."""
    before = await rows(database, "SELECT count(*) FROM audit_events")
    with pytest.raises(Exception, match="already"):
        await service.add_user(team.alice_name)
    assert await rows(database, "SELECT count(*) FROM audit_events") == before


async def test_a_forced_unlock_names_who_forced_it(service: RunningLocks, team: Team, database: Database) -> None:
    """A normal unlock is none of the audit log."""
    own = await service.create(team.repository_id, team.alice, "own.psd")
    await service.delete(team.repository_id, team.alice, own.id)
    other = await service.create(team.repository_id, team.alice, "other.psd")
    await service.delete(team.repository_id, team.bob, other.id, force=True)
    events = "SELECT type, actor, source FROM audit_events WHERE subject = :subject"
    assert await rows(database, events, subject=f"lock {own.id} own.psd") == []
    [event] = await rows(database, events, subject=f"lock {other.id} other.psd")
    assert tuple(event) == ("org.towpath.lock.forced", team.bob_name, "facade")


async def test_the_first_administrator_is_recorded(database: Database) -> None:
    """By the command that makes it."""
    [event] = await rows(database, "SELECT actor, source FROM audit_events WHERE subject = 'user admin'")
    assert tuple(event) == ("towpath migrate", "bootstrap")


async def test_a_change_by_hand_is_recorded(team: Team, database: Database) -> None:
    """And the record of it is not changed by hand."""
    await rows(database, "DELETE FROM grants WHERE user_id = :id RETURNING id", id=team.bob)
    [event] = await rows(
        database,
        "SELECT source FROM audit_events WHERE type = 'org.towpath.grant.deleted' AND repository = :name",
        name=team.repository,
    )
    assert event.source == "database"
    with pytest.raises(DBAPIError, match="never changed"):
        await rows(database, "UPDATE audit_events SET actor = 'nobody' RETURNING id")


async def test_all_types_are_in_the_list(database: Database) -> None:
    """The triggers' words are those of the list."""
    words = await rows(
        database,
        "SELECT DISTINCT trim(trailing '\\000' FROM encode(tgargs, 'escape')) FROM pg_trigger "
        "WHERE tgname LIKE 'audited\\_%' AND tgnargs = 1",
    )
    found = {f"org.towpath.{word}.{change}" for (word,) in words for change in ("created", "changed", "deleted")}
    assert len(words) == 13
    assert found <= EVENT_TYPES
    assert {type_ for (type_,) in await rows(database, "SELECT DISTINCT type FROM audit_events")} <= EVENT_TYPES


async def test_partitions_are_made_and_dropped(database: Database) -> None:
    """A month with rows in the default partition stays there, and expires like the others."""
    partitions = "SELECT inhrelid::regclass::text FROM pg_inherits WHERE inhparent = 'audit_events'::regclass"
    made = {name for (name,) in await rows(database, partitions)}
    assert len(made) == 3, "those of this month and the next, and the default one"
    async with database.engine.begin() as connection:
        for statement in (
            "CREATE TABLE audit_events_2020_01 PARTITION OF audit_events "
            "FOR VALUES FROM ('2020-01-01Z') TO ('2020-02-01Z')",
            "INSERT INTO audit_events (created_at, type, actor) "
            "SELECT '2020-02-15Z', 'org.towpath.user.created', 'old' FROM generate_series(1, 7)",
        ):
            await connection.execute(text(statement))
    await drop_expired(database, 400, max_rows=3)
    assert {name for (name,) in await rows(database, partitions)} == made
    assert await rows(database, "SELECT 1 FROM audit_events WHERE actor = 'old'") == []


async def test_rows_in_the_default_partition_keep_their_month_there(database_url: SecretStr) -> None:
    """Making partitions then does not fail."""
    await migrate(database_url, SCHEMA)
    database = Database(create_engine(database_url, schema="locks", pool_size=1))
    await rows(database, "INSERT INTO audit_events (type, actor) VALUES ('org.towpath.user.created', 'x') RETURNING id")
    await make_partitions(database)
    await make_partitions(database)
    partitions = "SELECT count(*) FROM pg_inherits WHERE inhparent = 'audit_events'::regclass"
    assert await rows(database, partitions) == [(2,)]
    await database.close()
