"""Decisions about a user who is in many groups, while the groups have many members."""

from sqlalchemy import text
from sqlmodel import col

from services.locks.access.grants import find_access
from services.locks.locking.table import select_locks_for_update
from services.locks.models import Lock
from tests.service.locks.conftest import Team
from tests.support.locks import RunningLocks

GROUPS, MEMBERS = 200, 100

# Alice is in every group, by an administrator and by her token; each group has others too, and grants.
FILL = (
    # Statistics of some of the tables, at a moment that depends on the machine, would be another case each time.
    *(
        f"ALTER TABLE {table} SET (autovacuum_enabled = false)"
        for table in ("users", "tokens", "groups", "group_members", "token_groups", "group_grants", "locks")
    ),
    "INSERT INTO users (name, administrator) SELECT 'member-' || n, false FROM generate_series(1, :members) AS n",
    "INSERT INTO tokens (user_id, name, token_hash) SELECT id, 'many', sha256(name::bytea) FROM users"
    " WHERE name LIKE 'member-%' OR id = :alice",
    "INSERT INTO groups (name) SELECT 'many-' || lpad(n::text, 3, '0') FROM generate_series(1, :groups) AS n",
    "INSERT INTO group_members (group_id, user_id) SELECT groups.id, users.id FROM groups, users"
    " WHERE groups.name LIKE 'many-%' AND (users.name LIKE 'member-%' OR users.id = :alice)",
    "INSERT INTO token_groups (token_id, group_id) SELECT tokens.id, groups.id FROM tokens, groups"
    " WHERE tokens.name = 'many' AND groups.name LIKE 'many-%'",
    "INSERT INTO group_grants (group_id, repository_id, role) SELECT id, :repository, 'admin' FROM groups"
    " WHERE name LIKE 'many-%'",
)


async def _memberships_read(service: RunningLocks, team: Team, token_id: int) -> int:
    """Decide about an access and a forced unlock, and return how many memberships both have read, by index or not."""
    read = text(
        "SELECT sum(seq_tup_read + coalesce(idx_tup_fetch, 0)) FROM pg_stat_xact_user_tables"
        " WHERE relname IN ('group_members', 'token_groups')"
    )
    # Another connection each time, because the numbers are those of a connection.
    async with service.open_database() as database, database.engine.begin() as connection:
        found = await find_access(connection, repository=team.repository, user_id=team.alice, token_id=token_id)
        assert found is not None
        by_groups = [record.source_name for record in found.records if record.source == "group"]
        names = [f"many-{number:03}" for number in range(1, GROUPS + 1)]
        assert by_groups == sorted(names * (2 if token_id else 1))
        [removal] = await select_locks_for_update(
            connection,
            col(Lock.repository_id) == team.repository_id,
            repository_id=team.repository_id,
            user_id=team.alice,
            token_id=token_id,
        )
        assert removal.lock.owner_id == team.bob
        return int(await connection.scalar(read) or 0)


async def test_the_work_does_not_grow_with_the_members(service: RunningLocks, team: Team) -> None:
    """With 20,000 memberships of each kind, a decision reads those of its user and token, whatever Postgres knows."""
    await service.create(team.repository_id, team.bob, "a.psd")
    values = {"alice": team.alice, "repository": team.repository_id, "groups": GROUPS, "members": MEMBERS}
    for statement in FILL:
        await service.execute(statement, **{name: value for name, value in values.items() if f":{name}" in statement})
    token = "SELECT id FROM tokens WHERE user_id = :alice AND name = 'many'"
    [(token_id,)] = await service.execute(token, alice=team.alice)
    for known in (False, True):
        if known:
            await service.execute("ANALYZE")
        assert GROUPS <= await _memberships_read(service, team, 0) < 4 * GROUPS
        assert GROUPS <= await _memberships_read(service, team, token_id) < 5 * GROUPS
