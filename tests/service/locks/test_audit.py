"""The audit log: rows that triggers write, their actors, and their partitions."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import structlog
from pydantic import SecretStr
from sqlalchemy import text
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import AsyncConnection
from towpath.access.v1 import admin_service_pb2 as admin

from services.common.errors import InvalidArgument, Reason
from services.database.engine import create_engine
from services.database.transactions import Database
from services.locks.audit.event_types import EVENT_TYPES
from services.locks.audit.partitions import drop_expired, make_partitions
from services.locks.audit.recorder import ADMIN, acting, watch_transactions
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
    "rate_states": "counts",
    "refusals": "no change",
    "removed_repositories": "the unfinished rest of `repository.deleted`",
    "repository_aliases": "the rest of a rename, which is `repository.changed`",
    "revoked_tokens": "the rest of `token.deleted`",
    "token_grants": "of a token of an issuer",
    "token_groups": "of a token of an issuer",
    "token_roles": "of a token of a forge",
    "token_uses": "no change",
}


@pytest.fixture
async def database(service: RunningLocks) -> AsyncIterator[Database]:
    """The service's database."""
    async with service.open_database() as database:
        watch_transactions(database.engine)
        yield database


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


async def test_no_url_tells_a_credential(database: Database) -> None:
    """Also of rows that a person writes by hand, past the checks of AdminService."""
    url = "HTTPS://user:se@cret@host.example:8443/path?secret=1#secret"
    async with database.engine.begin() as connection:
        for statement in (
            "INSERT INTO hooks (url, format, secret) VALUES (:url, 'json', 'whsec_secret')",
            "INSERT INTO hooks (url, format) VALUES ('secret-of-some-form', 'json')",
            "INSERT INTO issuers (name, url) VALUES ('by-hand', :url)",
            "INSERT INTO forges (name, kind, api_url) VALUES ('by-hand', 'gitea', :url)",
        ):
            await connection.execute(text(statement), {"url": url})
    events = await rows(
        database, "SELECT type, after FROM audit_events WHERE source = 'database' AND after::text ~ 'url' ORDER BY id"
    )
    told = [(event.type.split(".")[2], event.after.get("url", event.after.get("api_url"))) for event in events]
    bare = "HTTPS://host.example:8443"
    assert told == [("hook", bare), ("hook", ""), ("issuer", f"{bare}/path"), ("forge", f"{bare}/path")]
    assert "cret" not in str([list(event.after.values()) for event in events])


async def test_pages_of_large_events_fit_into_messages(service: RunningLocks, database: Database) -> None:
    """An export goes on through them, and neither loses an event nor tells one twice."""
    add = (
        "INSERT INTO audit_events (type, actor, after) SELECT 'org.towpath.group.grant.created', 'wide', "
        "jsonb_build_object('number', number, 'wide', repeat(md5(number::text), 40000)) "
        "FROM generate_series(1, 20) AS number RETURNING id"
    )
    ids = [number for (number,) in await rows(database, add)]
    request = admin.ListAuditEventsRequest(actor="wide", limit=500)
    pages: list[list[int]] = []
    while not pages or request.cursor:
        page = await service.admin_peer.call(service.admin.ListAuditEvents, request)
        pages.append([event.id for event in page.events])
        request.cursor = page.next_cursor
    assert [number for page in pages for number in page] == sorted(ids, reverse=True)
    assert {len(page) for page in pages[:-1]} == {3}


_PARTITIONS = "SELECT inhrelid::regclass::text FROM pg_inherits WHERE inhparent = 'audit_events'::regclass"


async def partitions(database: Database) -> set[str]:
    """Return the names of the partitions."""
    return {name.removeprefix("locks.") for (name,) in await rows(database, _PARTITIONS)}


async def test_partitions_are_made_and_dropped(database: Database) -> None:
    """Whole months, once all of them is old enough; rows of the default partition expire one by one."""
    made = await partitions(database)
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
    assert await partitions(database) == made
    assert await rows(database, "SELECT 1 FROM audit_events WHERE actor = 'old'") == []


@pytest.fixture
async def fresh(database_url: SecretStr) -> AsyncIterator[Database]:
    """A database with the tables, and no lock service."""
    database = Database(create_engine(database_url, schema="locks", pool_size=5))
    yield database
    await database.close()


@pytest.mark.parametrize(
    ("now", "months"),
    [
        ("2031-01-31T23:59:59.999999Z", {"2031_01", "2031_02"}),
        ("2031-02-01T00:00:00Z", {"2031_02", "2031_03"}),
        ("2032-02-29T12:00:00Z", {"2032_02", "2032_03"}),
        ("2031-12-15T12:00:00Z", {"2031_12", "2032_01"}),
    ],
)
async def test_the_month_and_the_next_have_partitions(fresh: Database, now: str, months: set[str]) -> None:
    """Whatever the day of the month; a row of the last and of the first moment is in the partition of its month."""
    await make_partitions(fresh, now=datetime.fromisoformat(now))
    assert await partitions(fresh) == {"audit_events_other", *(f"audit_events_{month}" for month in months)}
    for month in months:
        add = (
            "INSERT INTO audit_events (created_at, type, actor) SELECT moment, 'org.towpath.user.created', 'x' "
            "FROM (SELECT to_timestamp(:month || ' +00', 'YYYY_MM TZH') AS first) AS month, "
            "LATERAL (VALUES (first), (first + '1 month' - interval '1 us')) AS moments (moment) "
            "RETURNING tableoid::regclass::text"
        )
        assert {name for (name,) in await rows(fresh, add, month=month)} == {f"audit_events_{month}"}


async def test_a_month_is_dropped_when_all_of_it_is_old(fresh: Database) -> None:
    """To the moment; the current month stays even if one day is kept, and 30 days are those of its last moment."""
    await make_partitions(fresh, now=datetime(2031, 1, 15, tzinfo=UTC))
    both = {"audit_events_other", "audit_events_2031_01", "audit_events_2031_02"}
    last = datetime(2031, 3, 3, tzinfo=UTC)
    await drop_expired(fresh, 1, now=datetime(2031, 1, 31, 23, 59, tzinfo=UTC))
    await drop_expired(fresh, 30, now=last - timedelta(microseconds=1))
    assert await partitions(fresh) == both
    await drop_expired(fresh, 30, now=last)
    assert await partitions(fresh) == both - {"audit_events_2031_01"}


async def test_many_services_make_partitions_at_once(fresh: Database) -> None:
    """One of them makes them, and the others go on."""
    await asyncio.gather(*(make_partitions(fresh) for _ in range(5)))
    assert len(await partitions(fresh)) == 3
    await asyncio.gather(*(make_partitions(fresh) for _ in range(5)))
    assert len(await partitions(fresh)) == 3


async def test_one_service_at_a_time_keeps_the_log_in_order(fresh: Database) -> None:
    """While another does, there is nothing to do, also for the rows of the default partition."""
    await rows(
        fresh,
        "INSERT INTO audit_events (created_at, type, actor) VALUES ('2020-02-15Z', 'org.towpath.user.created', 'x') "
        "RETURNING id",
    )
    async with fresh.engine.begin() as other:
        await other.execute(text("SELECT pg_advisory_xact_lock(hashtextextended('towpath audit partitions', 0))"))
        await make_partitions(fresh)
        await drop_expired(fresh, 400)
        assert await partitions(fresh) == {"audit_events_other"}
        assert await rows(fresh, "SELECT count(*) FROM audit_events") == [(1,)]
    await make_partitions(fresh)
    await drop_expired(fresh, 400)
    assert len(await partitions(fresh)) == 3
    assert await rows(fresh, "SELECT count(*) FROM audit_events") == [(0,)]


async def test_rows_in_the_default_partition_keep_their_month_there(fresh: Database) -> None:
    """Also one that comes at the moment at which the partition is made: nothing is lost, and the next try succeeds."""
    add = text("INSERT INTO audit_events (type, actor) VALUES ('org.towpath.user.created', 'x')")
    async with fresh.engine.begin() as connection:
        await connection.execute(add)
        # The row is not visible yet, and Postgres waits for it.
        with pytest.raises(DBAPIError, match="lock timeout"):
            await make_partitions(fresh)
    for _ in range(2):
        await make_partitions(fresh)
    [(month,)] = await rows(fresh, "SELECT to_char(date_trunc('month', now()) + interval '1 month', 'YYYY_MM')")
    assert await partitions(fresh) == {"audit_events_other", f"audit_events_{month}"}
    assert await rows(fresh, "SELECT tableoid::regclass::text FROM audit_events") == [("audit_events_other",)]


async def test_a_change_that_is_rolled_back_has_no_row(team: Team, database: Database) -> None:
    """The event of a trigger ends with the change, and nothing of it is logged."""

    async def work(connection: AsyncConnection) -> None:
        await connection.execute(text("DELETE FROM grants WHERE user_id = :id"), {"id": team.bob})
        raise InvalidArgument(Reason.INVALID_FIELD, "after the change")

    before = await rows(database, "SELECT count(*) FROM audit_events")
    with structlog.testing.capture_logs() as lines, acting("somebody", ADMIN), pytest.raises(InvalidArgument):
        await database.run(work)
    assert await rows(database, "SELECT count(*) FROM audit_events") == before
    assert [line for line in lines if line["event"] == "audit"] == []
