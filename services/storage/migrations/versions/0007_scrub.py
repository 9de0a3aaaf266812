"""The time at which a blob was last read and found right."""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

revision: str = "0007"
down_revision: str | None = "0006"
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None


def upgrade() -> None:
    """Add the column: a new blob was verified on its arrival, and for those that are there their time begins now."""
    op.add_column(
        "contents",
        sa.Column("checked_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        schema="storage",
    )
    op.create_index(
        "contents_checked_at",
        "contents",
        ["store_id", "checked_at"],
        schema="storage",
        postgresql_where=sa.text("NOT is_doubted"),
    )


def downgrade() -> None:
    """Drop it."""
    op.drop_index("contents_checked_at", "contents", schema="storage")
    op.drop_column("contents", "checked_at", schema="storage")
