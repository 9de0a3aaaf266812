"""Note when tokens were last used, and keep those that are revoked for a while."""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

revision: str = "0005"
down_revision: str | None = "0004"
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None


def upgrade() -> None:
    """Make the tables; none of them has a trigger that tells of a change of access."""
    op.create_table(
        "token_uses",
        sa.Column("token_id", sa.BigInteger(), nullable=False),
        sa.Column("used_at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("token_id", name="pk_token_uses"),
        sa.ForeignKeyConstraint(["token_id"], ["tokens.id"], name="fk_token_uses_token_id", ondelete="CASCADE"),
    )
    op.create_table(
        "revoked_tokens",
        sa.Column("token_hash", sa.LargeBinary(), nullable=False),
        sa.Column("user_id", sa.BigInteger(), nullable=False),
        sa.Column("name", sa.Text(collation="C"), nullable=False),
        sa.Column("revoked_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.PrimaryKeyConstraint("token_hash", name="pk_revoked_tokens"),
        sa.ForeignKeyConstraint(["user_id"], ["users.id"], name="fk_revoked_tokens_user_id", ondelete="CASCADE"),
    )
    op.create_index("ix_revoked_tokens_user_id", "revoked_tokens", ["user_id"])
    op.create_index("ix_revoked_tokens_revoked_at", "revoked_tokens", ["revoked_at"])


def downgrade() -> None:
    """Drop the tables."""
    op.drop_table("revoked_tokens")
    op.drop_table("token_uses")
