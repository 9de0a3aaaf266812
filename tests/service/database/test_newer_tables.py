"""Services of one version on tables that a newer version has migrated."""

import asyncio
from pathlib import Path

import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from pydantic import SecretStr

from services.common.migration_versions import known_versions, newest_version
from services.database.engine import create_engine
from services.database.migrations import migrate
from services.database.versions import Schema, Standing, refusal, standing_of
from services.locks.models import SCHEMA
from tests.support.locks import RunningLocks, running_locks
from tests.support.newer_tables import later_version, migrate_later
from tests.support.waiting import until


async def _standing(url: SecretStr, schema: Schema) -> Standing:
    engine = create_engine(url, schema=schema.name, pool_size=1)
    async with engine.connect() as connection:
        standing = await standing_of(connection, schema.name)
    await engine.dispose()
    return standing


async def _is_serving(locks: RunningLocks) -> bool:
    stub = health_pb2_grpc.HealthStub(locks.peer.channel)
    answer = await stub.Check(health_pb2.HealthCheckRequest())  # type: ignore[attr-defined] # the types leave it out
    return bool(answer.status == health_pb2.HealthCheckResponse.SERVING)


async def test_an_older_service_serves_until_the_tables_say_otherwise(database_url: SecretStr, tmp_path: Path) -> None:
    """A rolling upgrade migrates first: services that have not been replaced yet go on, and can be started again."""
    async with running_locks(database_url, tmp_path) as locks:
        later = await migrate_later(database_url, SCHEMA, tmp_path / "versions")
        version = (await _standing(database_url, SCHEMA)).version
        assert version == newest_version(later.versions) != newest_version(SCHEMA.versions)
        # The service looks once a second; what it says of before the migration would prove nothing.
        await asyncio.sleep(3)
        assert await _is_serving(locks)
        await locks.add_user("carol")
    async with running_locks(database_url, tmp_path) as locks:
        # It started on the newer tables.
        assert await _is_serving(locks)
        await migrate_later(
            database_url, later, later.versions, constants='CONTRACTS = "nobody needs it"\nOLDEST_SERVICE = "0099"\n'
        )

        async def is_told() -> bool:
            return not await _is_serving(locks)

        await until(is_told, "the service says that it cannot use the tables")


async def test_migrating_with_an_older_version_changes_nothing(database_url: SecretStr, tmp_path: Path) -> None:
    """It says in one line that the tables are newer, instead of not finding their version."""
    later = await migrate_later(database_url, SCHEMA, tmp_path / "versions")
    before = await _standing(database_url, SCHEMA)
    note = await migrate(database_url, SCHEMA)
    assert note == (
        f"the tables are at version {newest_version(later.versions)}, "
        f"newer than the {newest_version(SCHEMA.versions)} of this Towpath, "
        "and are used as they are"
    )
    assert await _standing(database_url, SCHEMA) == before
    assert await migrate(database_url, later) is None


async def test_migrating_with_a_version_that_is_too_old_is_refused(database_url: SecretStr, tmp_path: Path) -> None:
    """A migration that contracts needs at least its own version, where it does not say which."""
    later = await migrate_later(database_url, SCHEMA, tmp_path / "versions", constants='CONTRACTS = "unused"\n')
    own, newest = newest_version(SCHEMA.versions), newest_version(later.versions)
    assert await _standing(database_url, SCHEMA) == (newest, newest)
    with pytest.raises(
        ValueError, match=rf"^the schema locks is at version {newest} and .* up to {own}: start a newer"
    ):
        await migrate(database_url, SCHEMA)
    # What comes after it keeps what it said, and a version that knows it may be older than the tables.
    newer_still = later_version(later, tmp_path / "more")
    await migrate(database_url, newer_still)
    assert await _standing(database_url, SCHEMA) == (newest_version(newer_still.versions), newest)
    assert "newer" in str(await migrate(database_url, later))


@pytest.mark.parametrize(
    ("standing", "said"),
    [
        (Standing("0002"), None),
        (Standing("0003"), None),
        (Standing("0003", "0002"), None),
        (Standing("0003", "0001"), None),
        (Standing("0004", "0003"), "can be used from version 0003 on"),
        (Standing("0002", "0003"), None),
        (Standing("0001"), "towpath migrate"),
        (Standing(None), "towpath migrate"),
        (Standing("restoring"), "towpath migrate"),
    ],
)
def test_which_tables_can_be_used(tmp_path: Path, standing: Standing, said: str | None) -> None:
    """Newer ones can unless they say otherwise; older ones, none, and those of a restore that goes on cannot."""
    for version in ("0001", "0002"):
        (tmp_path / f"{version}_goods.py").touch()
    found = refusal("barge", standing, known_versions(tmp_path))
    assert found is None if said is None else said in (found or "")
