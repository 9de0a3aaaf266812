"""Issuers have the secret of the client by which people sign in, because some ask programs for one."""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

revision: str = "0014"
down_revision: str | None = "0013"
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None


def upgrade() -> None:
    """Add the column."""
    secret = sa.Column("client_secret", sa.Text(collation="C"), server_default=sa.text("''"), nullable=False)
    op.add_column("issuers", secret)


def downgrade() -> None:
    """Drop the column."""
    op.drop_column("issuers", "client_secret")
