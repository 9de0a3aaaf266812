"""The users and sizes of direct uploads, which bound what a user brings and does not confirm."""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

revision: str = "0015"
down_revision: str | None = "0014"
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None


def upgrade() -> None:
    """Add them, and the index by which those of a user are found."""
    for name in ("user_id", "size"):
        op.add_column("uploads", sa.Column(name, sa.BigInteger()), schema="storage")
    op.create_index(
        "uploads_user_id",
        "uploads",
        ["repository_id", "user_id"],
        schema="storage",
        postgresql_where=sa.text("repository_id IS NOT NULL"),
    )


def downgrade() -> None:
    """Drop them."""
    op.drop_index("uploads_user_id", "uploads", schema="storage")
    for name in ("size", "user_id"):
        op.drop_column("uploads", name, schema="storage")
