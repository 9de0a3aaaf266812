"""What addresses owe for bad credentials."""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

revision: str = "0002"
down_revision: str | None = "0001"
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None


def upgrade() -> None:
    """Make the table."""
    op.create_table(
        "failed_logins",
        sa.Column("address", sa.Text(collation="C"), nullable=False),
        sa.Column("debt_until", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("address", name="pk_failed_logins"),
        prefixes=["UNLOGGED"],
    )
    op.create_index("ix_failed_logins_debt_until", "failed_logins", ["debt_until"])


def downgrade() -> None:
    """Drop the table."""
    op.drop_table("failed_logins")
