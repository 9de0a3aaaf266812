"""Services of one version on tables that a newer version has migrated."""

from collections.abc import Collection
from pathlib import Path

import pytest
from pydantic import SecretStr

from services.common.migration_versions import known_versions, newest_version
from services.database import readiness
from services.database.engine import create_engine
from services.database.migrations import migrate
from services.database.versions import Schema, Standing, refusal, standing_of
from services.locks.models import SCHEMA
from tests.support.health import NOT_SERVING, SERVING, health
from tests.support.locks import running_locks
from tests.support.newer_tables import later_version, migrate_later
from tests.support.waiting import until, until_answer


async def _standing(url: SecretStr, schema: Schema) -> Standing:
    engine = create_engine(url, schema=schema.name, pool_size=1)
    async with engine.connect() as connection:
        standing = await standing_of(connection, schema.name)
    await engine.dispose()
    return standing


async def test_an_older_service_serves_until_the_tables_say_otherwise(
    database_url: SecretStr, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A rolling upgrade migrates first: services that have not been replaced yet go on, and can be started again."""
    looks: list[Standing] = []

    def look(name: str, standing: Standing, known: Collection[str]) -> str | None:
        looks.append(standing)
        return refusal(name, standing, known)

    monkeypatch.setattr(readiness, "refusal", look)
    async with running_locks(database_url, tmp_path) as locks:
        later = await migrate_later(database_url, SCHEMA, tmp_path / "versions")
        standing = await _standing(database_url, SCHEMA)
        assert standing.version == newest_version(later.versions) != newest_version(SCHEMA.versions)
        # By the second look the service has said what it makes of the first.
        await until(lambda: looks.count(standing) > 1, "the service has seen the newer tables")
        assert await health(locks.peer.channel) == SERVING
        await locks.add_user("carol")
    async with running_locks(database_url, tmp_path) as locks:
        # It started on the newer tables.
        assert await health(locks.peer.channel) == SERVING
        await migrate_later(
            database_url, later, later.versions, constants='CONTRACTS = "nobody needs it"\nOLDEST_SERVICE = "0099"\n'
        )
        # The service says that it cannot use the tables.
        await until_answer(NOT_SERVING, lambda: health(locks.peer.channel))


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
