"""Index the locks by folder and by owner, and count their changes, so that lists are read fast, or need not be read."""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

revision: str = "0006"
down_revision: str | None = "0005"
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None


_STRIPES = 16
_COUNT = """
    CREATE OR REPLACE FUNCTION count_locks_after_{event}() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN
        INSERT INTO locks.locks_per_user AS counted (repository_id, user_id, stripe, count)
            SELECT repository_id, owner_id, pg_backend_pid() % {stripes}, {sign} count(*) FROM changed
            GROUP BY 1, 2 ORDER BY 1, 2
            ON CONFLICT (repository_id, user_id, stripe) DO UPDATE SET count = counted.count + excluded.count;
        INSERT INTO locks.locks_per_repository AS counted (repository_id, stripe, count{column})
            SELECT repository_id, pg_backend_pid() % {stripes}, {sign} count(*){changes} FROM changed
            GROUP BY 1 ORDER BY 1
            ON CONFLICT (repository_id, stripe) DO UPDATE SET count = counted.count + excluded.count{add};
        RETURN NULL;
    END$$
"""
_WITH_CHANGES = {
    "column": ", changes",
    "changes": ", count(*)",
    "add": ", changes = counted.changes + excluded.changes",
}


def _count(names: dict[str, str]) -> None:
    for event, sign in (("insert", ""), ("delete", "-")):
        op.execute(_COUNT.format(event=event, sign=sign, stripes=_STRIPES, **names))


def upgrade() -> None:
    """Create the indexes, and add the number of changes to the stripes of the number of locks.

    A path is too long for an index, but its first 255 characters are not. The sum of the changes grows with each
    change. Commits have an order, so that no two states of the locks have the same sum. No statement waits for longer
    than it does already, because it changes these rows anyway.
    """
    op.create_index("ix_locks_repository_id_path", "locks", ["repository_id", sa.text('"left"(path, 255)'), "id"])
    op.create_index("ix_locks_repository_id_owner_id_id", "locks", ["repository_id", "owner_id", "id"])
    op.add_column(
        "locks_per_repository", sa.Column("changes", sa.BigInteger(), server_default=sa.text("0"), nullable=False)
    )
    _count(_WITH_CHANGES)


def downgrade() -> None:
    """Drop them."""
    _count(dict.fromkeys(_WITH_CHANGES, ""))
    op.drop_column("locks_per_repository", "changes")
    op.drop_index("ix_locks_repository_id_owner_id_id", "locks")
    op.drop_index("ix_locks_repository_id_path", "locks")
