"""Locks remember the ref for which they were created, by which jobs of one program are told apart."""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

revision: str = "0013"
down_revision: str | None = "0012"
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None


def upgrade() -> None:
    """Add the column; it is empty for locks from before."""
    op.add_column("locks", sa.Column("ref", sa.Text(collation="C"), server_default=sa.text("''"), nullable=False))


def downgrade() -> None:
    """Drop the column."""
    op.drop_column("locks", "ref")
