"""Count the locks that stand, of each repository and of each user in it, so that nobody has to count them."""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

revision: str = "0004"
down_revision: str | None = "0003"
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None

_STRIPES = 16

# In one order everywhere, so that no two transactions wait for each other.
_ADD = """
    INSERT INTO locks.locks_per_user AS counted (repository_id, user_id, stripe, count)
        SELECT repository_id, owner_id, {stripe}, {sign} count(*) FROM {rows} GROUP BY 1, 2 ORDER BY 1, 2
        ON CONFLICT (repository_id, user_id, stripe) DO UPDATE SET count = counted.count + excluded.count;
    INSERT INTO locks.locks_per_repository AS counted (repository_id, stripe, count)
        SELECT repository_id, {stripe}, {sign} count(*) FROM {rows} GROUP BY 1 ORDER BY 1
        ON CONFLICT (repository_id, stripe) DO UPDATE SET count = counted.count + excluded.count;
"""
_ROOM = """
    DECLARE
        key bigint := hashtextextended('towpath locks of ' || repository, 0);
        margin bigint := 0;
        here bigint;
        own bigint;
    BEGIN
        IF alone THEN
            PERFORM pg_advisory_xact_lock(key);
        ELSE
            PERFORM pg_advisory_xact_lock_shared(key);
            margin := current_setting('max_connections')::bigint;
        END IF;
        SELECT coalesce(sum(count), 0) INTO here FROM locks.locks_per_repository WHERE repository_id = repository;
        SELECT coalesce(sum(count), 0) INTO own FROM locks.locks_per_user
            WHERE repository_id = repository AND user_id = holder;
        RETURN CASE
            WHEN here + margin < most_here AND own + margin < most_each THEN 'room'
            WHEN NOT alone THEN 'near'
            WHEN here >= most_here THEN 'repository'
            ELSE 'user'
        END;
    END
"""


def upgrade() -> None:
    """Make the counts, what keeps them, and what a new lock is admitted by.

    Each count is spread over several rows, which connections change by turns: on a single one all who lock something
    in a repository would wait for each other's commits. For the same reason they are admitted side by side while each
    connection there can be might add a lock more, and one by one from there on. A function's statement sees what was
    committed before it, so who is alone sees every lock.
    """
    op.create_table(
        "locks_per_repository",
        sa.Column("repository_id", sa.BigInteger(), nullable=False),
        sa.Column("stripe", sa.SmallInteger(), nullable=False),
        sa.Column("count", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("repository_id", "stripe", name="pk_locks_per_repository"),
        sa.ForeignKeyConstraint(
            ["repository_id"],
            ["repositories.id"],
            name="fk_locks_per_repository_repository_id",
            ondelete="CASCADE",
        ),
    )
    op.create_table(
        "locks_per_user",
        sa.Column("repository_id", sa.BigInteger(), nullable=False),
        sa.Column("user_id", sa.BigInteger(), nullable=False),
        sa.Column("stripe", sa.SmallInteger(), nullable=False),
        sa.Column("count", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("repository_id", "user_id", "stripe", name="pk_locks_per_user"),
        sa.ForeignKeyConstraint(
            ["repository_id"], ["repositories.id"], name="fk_locks_per_user_repository_id", ondelete="CASCADE"
        ),
        sa.ForeignKeyConstraint(["user_id"], ["users.id"], name="fk_locks_per_user_user_id", ondelete="CASCADE"),
    )
    op.create_index("ix_locks_per_user_user_id", "locks_per_user", ["user_id"])
    stripe = f"pg_backend_pid() % {_STRIPES}"
    for event, sign, changed in (("INSERT", "", "NEW"), ("DELETE", "-", "OLD")):
        name = f"count_locks_after_{event.lower()}"
        body = _ADD.format(stripe=stripe, sign=sign, rows="changed")
        op.execute(f"CREATE FUNCTION {name}() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN {body} RETURN NULL; END$$")
        op.execute(
            f"CREATE TRIGGER {name} AFTER {event} ON locks REFERENCING {changed} TABLE AS changed "
            f"FOR EACH STATEMENT EXECUTE FUNCTION {name}()"
        )
    op.execute(
        "CREATE FUNCTION room_for_lock(repository bigint, holder bigint, most_here bigint, most_each bigint,"
        f" alone boolean) RETURNS text LANGUAGE plpgsql AS $${_ROOM}$$"
    )
    # The triggers keep everybody from changing locks until this is committed.
    for statement in _ADD.format(stripe="0", sign="", rows="locks").split(";"):
        if statement.strip():
            op.execute(statement)


def downgrade() -> None:
    """Drop all of it."""
    op.execute("DROP FUNCTION room_for_lock(bigint, bigint, bigint, bigint, boolean)")
    for event in ("insert", "delete"):
        op.execute(f"DROP TRIGGER count_locks_after_{event} ON locks")
        op.execute(f"DROP FUNCTION count_locks_after_{event}()")
    op.drop_table("locks_per_user")
    op.drop_table("locks_per_repository")
