"""Partial uploads: what arrived of an object before its upload broke off, as parts."""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

revision: str = "0013"
down_revision: str | None = "0012"
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None


def upgrade() -> None:
    """Make the tables."""
    op.create_table(
        "partial_uploads",
        sa.Column("id", sa.BigInteger(), sa.Identity(), nullable=False),
        sa.Column("repository_id", sa.BigInteger(), nullable=False),
        sa.Column("oid", sa.String(64, collation="C"), nullable=False),
        sa.Column("size", sa.BigInteger(), nullable=False),
        sa.Column("user_id", sa.BigInteger(), nullable=False),
        sa.Column("received", sa.BigInteger(), nullable=False),
        sa.Column("holder", sa.BigInteger(), nullable=False),
        sa.Column("held_until", sa.DateTime(timezone=True), nullable=False),
        sa.Column("expires_at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("repository_id", "oid", "size", "user_id"),
        sa.CheckConstraint("received BETWEEN 0 AND size", name="partial_uploads_received_check"),
        schema="storage",
    )
    op.create_index("ix_storage_partial_uploads_expires_at", "partial_uploads", ["expires_at"], schema="storage")
    op.create_table(
        "partial_upload_parts",
        sa.Column("upload_id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("start", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("size", sa.BigInteger(), nullable=False),
        sa.Column("store_id", sa.SmallInteger(), nullable=False),
        sa.Column("name", sa.String(81, collation="C"), nullable=False),
        sa.PrimaryKeyConstraint("upload_id", "start"),
        sa.ForeignKeyConstraint(["upload_id"], ["storage.partial_uploads.id"]),
        sa.CheckConstraint("size > 0", name="partial_upload_parts_size_check"),
        schema="storage",
    )
    op.create_index("ix_storage_partial_upload_parts_name", "partial_upload_parts", ["name"], schema="storage")


def downgrade() -> None:
    """Drop them, and let their bytes be deleted."""
    op.execute(
        "INSERT INTO storage.discards (store_id, name, due_at)"
        " SELECT store_id, name, now() FROM storage.partial_upload_parts ON CONFLICT DO NOTHING"
    )
    for table in ("partial_upload_parts", "partial_uploads"):
        op.drop_table(table, schema="storage")
