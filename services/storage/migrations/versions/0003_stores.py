"""Bytes lie in one store or in several, and move from one to another."""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

revision: str = "0003"
down_revision: str | None = "0002"
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None

CONTRACTS = "a primary key is replaced by one of the same columns"


def upgrade() -> None:
    """Make the tables. The first store is that of `TOWPATH_STORAGE_URL`."""
    op.create_table(
        "stores",
        sa.Column("id", sa.SmallInteger(), sa.Identity(start=2), nullable=False),
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("url", sa.String(), nullable=True),
        sa.Column("is_primary", sa.Boolean(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), server_default=sa.func.now(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("name"),
        sa.UniqueConstraint("url"),
        schema="storage",
    )
    op.create_index(
        "stores_primary",
        "stores",
        ["is_primary"],
        unique=True,
        schema="storage",
        postgresql_where=sa.text("is_primary"),
    )
    op.create_table(
        "copies",
        sa.Column("to_id", sa.SmallInteger(), nullable=False),
        sa.Column("from_id", sa.SmallInteger(), nullable=False),
        sa.Column("parallel", sa.Integer(), nullable=False),
        sa.Column("bytes_per_second", sa.BigInteger(), nullable=True),
        sa.Column("started_at", sa.DateTime(timezone=True), server_default=sa.func.now(), nullable=False),
        sa.Column("problem", sa.String(), nullable=False),
        sa.PrimaryKeyConstraint("to_id"),
        sa.ForeignKeyConstraint(["to_id"], ["storage.stores.id"], ondelete="CASCADE"),
        sa.ForeignKeyConstraint(["from_id"], ["storage.stores.id"]),
        schema="storage",
    )
    op.create_table(
        "announcements",
        sa.Column("process", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("remaining_bytes", sa.BigInteger(), nullable=False),
        sa.Column("told_at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("process"),
        schema="storage",
        prefixes=["UNLOGGED"],
    )
    op.add_column(
        "contents",
        sa.Column("is_doubted", sa.Boolean(), server_default=sa.text("false"), nullable=False),
        schema="storage",
    )
    op.create_index(
        "contents_doubted",
        "contents",
        ["store_id", "oid"],
        schema="storage",
        postgresql_where=sa.text("is_doubted"),
    )
    # A batch asks for all stores of an object at once.
    op.drop_constraint("contents_pkey", "contents", schema="storage")
    op.create_primary_key("contents_pkey", "contents", ["oid", "store_id"], schema="storage")
    op.execute("INSERT INTO storage.stores (id, name, is_primary) VALUES (1, 'first', true)")


def downgrade() -> None:
    """Refuse: the version before knows of one store only."""
    raise NotImplementedError("the version before does not know where bytes lie that were moved")
