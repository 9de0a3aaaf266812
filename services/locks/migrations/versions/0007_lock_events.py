"""Lock events, notes, thefts, spaces, rules of repositories for locks, and webhooks with their deliveries."""

from collections.abc import Sequence
from typing import Any

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision: str = "0007"
down_revision: str | None = "0006"
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None

_STRIPE = "pg_backend_pid() % 16"
_FUNCTION = "CREATE OR REPLACE FUNCTION {name}() RETURNS trigger LANGUAGE plpgsql AS $${body}$$"
_TRIGGER = (
    "CREATE TRIGGER {name} AFTER INSERT ON {table} REFERENCING NEW TABLE AS changed "
    "FOR EACH STATEMENT EXECUTE FUNCTION {name}()"
)

_COUNT_FOR_USERS = """
    INSERT INTO locks.locks_per_user AS counted (repository_id, user_id, stripe, count)
        SELECT repository_id, owner_id, {stripe}, {sign} count(*) FROM changed GROUP BY 1, 2 ORDER BY 1, 2
        ON CONFLICT (repository_id, user_id, stripe) DO UPDATE SET count = counted.count + excluded.count;
"""
_COUNT_INSERTED = """
    INSERT INTO locks.locks_per_repository AS counted (repository_id, stripe, count, changes)
        SELECT repository_id, {stripe}, count(*), count(*) FROM changed GROUP BY 1 ORDER BY 1
        ON CONFLICT (repository_id, stripe) DO UPDATE
        SET count = counted.count + excluded.count, changes = counted.changes + excluded.changes
"""
_COUNT_DELETED = """
    INSERT INTO locks.locks_per_repository AS counted (repository_id, stripe, count{column})
        SELECT repository_id, {stripe}, - count(*){changes} FROM changed GROUP BY 1 ORDER BY 1
        ON CONFLICT (repository_id, stripe) DO UPDATE SET count = counted.count + excluded.count{add};
"""
_COUNT_RELEASED = """
    INSERT INTO locks.locks_per_repository AS counted (repository_id, stripe, count, changes)
        SELECT changed.repository_id, {stripe}, 0, count(*) FROM changed
        -- Only a restore brings the history of repositories that are gone.
        JOIN locks.repositories ON repositories.id = changed.repository_id
        WHERE NOT changed.stolen GROUP BY 1 ORDER BY 1
        ON CONFLICT (repository_id, stripe) DO UPDATE SET changes = counted.changes + excluded.changes
"""
_NUMBER = "counted.changes + 1 - row_number() OVER (PARTITION BY changed.repository_id ORDER BY changed.id DESC)"
_DELIVER = """
    INSERT INTO locks.hook_deliveries (hook_id, repository_id, event_type, payload)
    SELECT hooks.id, event.repository_id, event.type, to_jsonb(event) || jsonb_build_object(
        'repository_name', (SELECT name FROM locks.repositories WHERE repositories.id = event.repository_id)
    )
    FROM event JOIN locks.hooks ON event.repository_id = coalesce(hooks.repository_id, event.repository_id)
    WHERE hooks.disabled_at IS NULL
        AND EXISTS (SELECT FROM unnest(hooks.events) AS wanted WHERE event.type LIKE replace(wanted, '*', '%'))
    ORDER BY event.id, hooks.id
"""
_AFTER_INSERT = f"""BEGIN
    {_COUNT_FOR_USERS.format(stripe=_STRIPE, sign="")}
    WITH counted AS ({_COUNT_INSERTED.format(stripe=_STRIPE)} RETURNING repository_id, stripe, changes),
    event AS (INSERT INTO locks.lock_events (
        repository_id, stripe, number, type, lock_id, path, space, note, owner_id, owner_name, locked_at,
        caused_by, reason, forced, previous_id, previous_owner
    )
    SELECT
        changed.repository_id, counted.stripe, {_NUMBER},
        CASE WHEN previous.lock_id IS NULL THEN 'lock.created' ELSE 'lock.stolen' END,
        changed.id, changed.path, changed.space, changed.note, changed.owner_id, users.name, changed.locked_at,
        coalesce(previous.released_by, users.name), coalesce(previous.reason, ''), previous.lock_id IS NOT NULL,
        previous.lock_id, coalesce(previous.owner_name, '')
    FROM changed JOIN counted USING (repository_id) JOIN locks.users ON users.id = changed.owner_id
    LEFT JOIN locks.released_locks AS previous ON previous.lock_id = changed.stolen_from
    ORDER BY changed.id
    RETURNING *) {_DELIVER};
    RETURN NULL;
END"""  # noqa: S608 - our own names
_AFTER_DELETE = f"""BEGIN
    {_COUNT_FOR_USERS.format(stripe=_STRIPE, sign="-")}
    {_COUNT_DELETED.format(stripe=_STRIPE, column="", changes="", add="")}
    RETURN NULL;
END"""
_AFTER_RELEASE = f"""BEGIN
    WITH counted AS ({_COUNT_RELEASED.format(stripe=_STRIPE)} RETURNING repository_id, stripe, changes),
    event AS (INSERT INTO locks.lock_events (
        repository_id, stripe, number, type, lock_id, path, space, note, owner_id, owner_name, locked_at,
        caused_by, reason, forced
    )
    SELECT
        changed.repository_id, counted.stripe, {_NUMBER},
        'lock.released', changed.lock_id, changed.path, changed.space, changed.note, changed.owner_id,
        changed.owner_name, changed.locked_at, changed.released_by, changed.reason, changed.forced
    FROM changed JOIN counted USING (repository_id) WHERE NOT changed.stolen
    ORDER BY changed.id
    RETURNING *) {_DELIVER};
    RETURN NULL;
END"""  # noqa: S608 - our own names
_INSERTED_0006 = f"""BEGIN
    {_COUNT_FOR_USERS.format(stripe=_STRIPE, sign="")}
    {_COUNT_INSERTED.format(stripe=_STRIPE)};
    RETURN NULL;
END"""
_CHANGES_0006 = {
    "column": ", changes",
    "changes": ", count(*)",
    "add": ", changes = counted.changes + excluded.changes",
}
_DELETED_0006 = f"""BEGIN
    {_COUNT_FOR_USERS.format(stripe=_STRIPE, sign="-")}
    {_COUNT_DELETED.format(stripe=_STRIPE, **_CHANGES_0006)}
    RETURN NULL;
END"""

_ADDED = {
    "repositories": ("stale_after_seconds", "history_seconds", "release_on", "lock_spaces"),
    "grants": ("ignores_locks",),
    "locks": ("note", "space", "stolen_from"),
    "released_locks": ("note", "space", "reason", "stolen"),
}
_INDEXES = {
    "ix_released_locks_by_time": ("released_at", "id"),
    "ix_released_locks_by_owner": ("owner_name", "released_at", "id"),
}
_NUMBERS = ("stale_after_seconds", "history_seconds", "stolen_from")
_LISTS = ("release_on", "lock_spaces")
_FLAGS = ("ignores_locks", "stolen")


def _text(name: str) -> sa.Column[str]:
    return sa.Column(name, sa.Text(collation="C"), server_default=sa.text("''"), nullable=False)


def _texts(name: str) -> sa.Column[list[str]]:
    return sa.Column(name, postgresql.ARRAY(sa.Text()), server_default=sa.text("'{}'"), nullable=False)


def _moment(name: str, *, now: bool = False) -> sa.Column[object]:
    default = sa.text("now()") if now else None
    return sa.Column(name, sa.DateTime(timezone=True), server_default=default, nullable=not now)


def _added(name: str) -> sa.Column[Any]:
    if name in _NUMBERS:
        return sa.Column(name, sa.BigInteger(), nullable=True)
    if name in _FLAGS:
        return sa.Column(name, sa.Boolean(), server_default=sa.text("false"), nullable=False)
    return _texts(name) if name in _LISTS else _text(name)


def upgrade() -> None:
    """Add the columns and tables, and the triggers that record events and their deliveries.

    The events of one stripe are numbered without a gap, because the stripe's row is locked until its transaction ends.
    So the events that a reader does not know are those beyond the last number of each stripe that it knows, whatever
    the order of commits. A release is counted and recorded with its row of the history, which tells who released it;
    that of a theft is not counted, because the new lock is.
    """
    for table, names in _ADDED.items():
        for name in names:
            op.add_column(table, _added(name))
    for index, columns in _INDEXES.items():
        op.create_index(index, "released_locks", ["repository_id", *columns])
    # Without it, the locks of an owner in a folder are read with those of all others in that folder.
    op.create_index(
        "ix_locks_repository_id_owner_id_path",
        "locks",
        ["repository_id", "owner_id", sa.text('"left"(path, 255)'), "id"],
    )
    op.create_index(
        "ix_released_locks_in_spaces",
        "released_locks",
        ["repository_id", sa.text('"left"(path, 255)')],
        postgresql_where=sa.text("space <> ''"),
    )
    _create_tables()
    for name, body in (
        ("count_locks_after_insert", _AFTER_INSERT),
        ("count_locks_after_delete", _AFTER_DELETE),
        ("record_released_locks", _AFTER_RELEASE),
    ):
        op.execute(_FUNCTION.format(name=name, body=body))
    op.execute(_TRIGGER.format(name="record_released_locks", table="released_locks"))


def _create_tables() -> None:
    op.create_table(
        "lock_events",
        sa.Column("repository_id", sa.BigInteger(), nullable=False),
        sa.Column("stripe", sa.SmallInteger(), nullable=False),
        sa.Column("number", sa.BigInteger(), nullable=False),
        sa.Column("id", sa.BigInteger(), sa.Identity(always=True), nullable=False),
        _text("type"),
        sa.Column("lock_id", sa.BigInteger(), nullable=False),
        _text("path"),
        _text("space"),
        _text("note"),
        sa.Column("owner_id", sa.BigInteger(), nullable=False),
        _text("owner_name"),
        sa.Column("locked_at", sa.DateTime(timezone=True), nullable=False),
        _text("caused_by"),
        _text("reason"),
        sa.Column("forced", sa.Boolean(), nullable=False),
        sa.Column("previous_id", sa.BigInteger(), nullable=True),
        _text("previous_owner"),
        _moment("created_at", now=True),
        sa.PrimaryKeyConstraint("repository_id", "stripe", "number", name="pk_lock_events"),
    )
    op.create_table(
        "hooks",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=True), nullable=False),
        sa.Column("repository_id", sa.BigInteger(), nullable=True),
        _text("url"),
        _texts("events"),
        _text("format"),
        _text("secret"),
        sa.Column("allows_private", sa.Boolean(), server_default=sa.text("false"), nullable=False),
        _moment("created_at", now=True),
        _moment("disabled_at"),
        _text("disabled_because"),
        sa.PrimaryKeyConstraint("id", name="pk_hooks"),
        sa.ForeignKeyConstraint(
            ["repository_id"], ["repositories.id"], name="fk_hooks_repository_id", ondelete="CASCADE"
        ),
        sa.CheckConstraint("format IN ('json', 'slack', 'discord')", name="ck_hooks_format"),
    )
    op.create_index("ix_hooks_repository_id", "hooks", ["repository_id"])
    op.create_table(
        "hook_deliveries",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=True), nullable=False),
        sa.Column("hook_id", sa.BigInteger(), nullable=False),
        sa.Column("repository_id", sa.BigInteger(), nullable=False),
        sa.Column("message_uuid", sa.Uuid(), server_default=sa.text("gen_random_uuid()"), nullable=False),
        _text("event_type"),
        sa.Column("payload", postgresql.JSONB(), nullable=False),
        _moment("created_at", now=True),
        _moment("queued_at", now=True),
        sa.Column("attempts", sa.Integer(), server_default=sa.text("0"), nullable=False),
        sa.Column("next_attempt_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=True),
        _moment("delivered_at"),
        sa.Column("response_status", sa.Integer(), nullable=True),
        _text("problem"),
        sa.PrimaryKeyConstraint("id", name="pk_hook_deliveries"),
        sa.ForeignKeyConstraint(["hook_id"], ["hooks.id"], name="fk_hook_deliveries_hook_id", ondelete="CASCADE"),
    )
    op.create_index("ix_hook_deliveries_hook_id_id", "hook_deliveries", ["hook_id", "id"])
    op.create_index(
        "ix_hook_deliveries_pending",
        "hook_deliveries",
        ["hook_id", "repository_id", "id"],
        postgresql_where=sa.text("next_attempt_at IS NOT NULL"),
    )


def downgrade() -> None:
    """Drop them, and count the changes as before."""
    op.execute("DROP TRIGGER record_released_locks ON released_locks")
    op.execute(_FUNCTION.format(name="count_locks_after_insert", body=_INSERTED_0006))
    op.execute(_FUNCTION.format(name="count_locks_after_delete", body=_DELETED_0006))
    for table in ("hook_deliveries", "hooks", "lock_events"):
        op.drop_table(table)
    op.execute("DROP FUNCTION record_released_locks()")
    op.drop_index("ix_locks_repository_id_owner_id_path", "locks")
    for index in (*_INDEXES, "ix_released_locks_in_spaces"):
        op.drop_index(index, "released_locks")
    for table, names in _ADDED.items():
        for name in names:
            op.drop_column(table, name)
