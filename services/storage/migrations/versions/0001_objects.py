"""The objects of repositories, oids without a holder, and the daily traffic."""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

revision: str = "0001"
down_revision: str | None = None
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None


def upgrade() -> None:
    """Make the tables."""
    op.create_table(
        "objects",
        sa.Column("repository_id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("oid", sa.String(64, collation="C"), nullable=False),
        sa.Column("size", sa.BigInteger(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), server_default=sa.func.now(), nullable=False),
        sa.Column("removed_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("removal_reason", sa.String(), nullable=True),
        sa.Column("removed_by", sa.String(), nullable=True),
        sa.PrimaryKeyConstraint("repository_id", "oid"),
        sa.CheckConstraint("size >= 0", name="objects_size_check"),
        sa.CheckConstraint("(removed_at IS NULL) = (removal_reason IS NULL)", name="objects_removal_check"),
        schema="storage",
    )
    op.create_index(
        "objects_held_oid",
        "objects",
        ["oid"],
        schema="storage",
        postgresql_where=sa.text("removed_at IS NULL"),
    )
    op.create_table(
        "unclaimed_objects",
        sa.Column("oid", sa.String(64, collation="C"), nullable=False),
        sa.PrimaryKeyConstraint("oid"),
        schema="storage",
    )
    op.create_table(
        "deleted_repositories",
        sa.Column("repository_id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.PrimaryKeyConstraint("repository_id"),
        schema="storage",
    )
    op.create_table(
        "traffic",
        sa.Column("repository_id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("day", sa.Date(), nullable=False),
        sa.Column("bytes_in", sa.BigInteger(), nullable=False),
        sa.Column("bytes_out", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("repository_id", "day"),
        schema="storage",
    )


def downgrade() -> None:
    """Drop the tables, and with them the record of every object."""
    for table in ("traffic", "deleted_repositories", "unclaimed_objects", "objects"):
        op.drop_table(table, schema="storage")
