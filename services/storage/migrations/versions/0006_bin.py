"""The bytes of a removed object are kept in a bin for a time."""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

revision: str = "0006"
down_revision: str | None = "0005"
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None

# Nothing else deletes the bytes that only a bin needs.
_EMPTY_BIN = """
    WITH gone AS (
        DELETE FROM storage.contents
        WHERE NOT EXISTS (SELECT FROM storage.objects WHERE objects.oid = contents.oid AND removed_at IS NULL)
        RETURNING store_id, name, writable_until
    )
    INSERT INTO storage.discards (store_id, name, writable_until, due_at)
    SELECT store_id, name, writable_until, now() FROM gone
    ON CONFLICT DO NOTHING
"""


def upgrade() -> None:
    """Add the column, and put the index of needed objects in place of that of held ones, which it serves as well.

    A service of the version before knows no bin: what it removes meanwhile goes at once, also from the bins of others.
    """
    op.add_column("objects", sa.Column("bin_until", sa.DateTime(timezone=True)), schema="storage")
    for name, column, condition in (
        ("objects_kept_oid", "oid", "removed_at IS NULL OR bin_until IS NOT NULL"),
        ("objects_bin_until", "bin_until", "bin_until IS NOT NULL"),
    ):
        op.create_index(name, "objects", [column], schema="storage", postgresql_where=sa.text(condition))
    op.drop_index("objects_held_oid", "objects", schema="storage")


def downgrade() -> None:
    """Empty the bins, and drop the column."""
    op.execute(_EMPTY_BIN)
    op.create_index(
        "objects_held_oid", "objects", ["oid"], schema="storage", postgresql_where=sa.text("removed_at IS NULL")
    )
    op.drop_index("objects_kept_oid", "objects", schema="storage")
    op.drop_column("objects", "bin_until", schema="storage")
