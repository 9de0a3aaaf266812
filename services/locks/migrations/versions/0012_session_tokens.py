"""Tokens of SSH sessions are for one repository, and to read it or to write it."""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

revision: str = "0012"
down_revision: str | None = "0011"
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None


def upgrade() -> None:
    """Add the columns, and end the tokens of sessions that are for everything; clients ask for another one."""
    op.execute("DELETE FROM tokens WHERE ssh_key_id IS NOT NULL")
    reference = "CONSTRAINT fk_tokens_ssh_repository_id REFERENCES repositories (id) ON DELETE CASCADE"
    op.execute(f"ALTER TABLE tokens ADD COLUMN ssh_repository_id bigint {reference}")
    op.add_column("tokens", sa.Column("ssh_may_write", sa.Boolean(), nullable=True))
    op.create_index(
        "ix_tokens_ssh_repository_id",
        "tokens",
        ["ssh_repository_id"],
        postgresql_where=sa.text("ssh_repository_id IS NOT NULL"),
    )


def downgrade() -> None:
    """End the tokens of sessions, which would be for everything, and drop the columns."""
    op.execute("DELETE FROM tokens WHERE ssh_key_id IS NOT NULL")
    op.drop_column("tokens", "ssh_may_write")
    op.drop_column("tokens", "ssh_repository_id")
