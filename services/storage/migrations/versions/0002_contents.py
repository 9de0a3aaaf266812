"""Bytes lie under names that are used once: which name holds an object's, which are on their way, and which may go."""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

revision: str = "0002"
down_revision: str | None = "0001"
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None


def upgrade() -> None:
    """Make the tables. What earlier versions stored lies in the first store, under its oid."""
    op.create_table(
        "contents",
        sa.Column("store_id", sa.SmallInteger(), autoincrement=False, nullable=False),
        sa.Column("oid", sa.String(64, collation="C"), nullable=False),
        sa.Column("name", sa.String(81, collation="C"), nullable=False),
        sa.Column("writable_until", sa.DateTime(timezone=True), nullable=True),
        sa.PrimaryKeyConstraint("store_id", "oid"),
        schema="storage",
    )
    op.create_table(
        "uploads",
        sa.Column("store_id", sa.SmallInteger(), autoincrement=False, nullable=False),
        sa.Column("name", sa.String(81, collation="C"), nullable=False),
        sa.Column("writer", sa.BigInteger(), nullable=True),
        sa.Column("repository_id", sa.BigInteger(), nullable=True),
        sa.Column("expires_at", sa.DateTime(timezone=True), nullable=True),
        sa.PrimaryKeyConstraint("store_id", "name"),
        sa.CheckConstraint(
            "(writer IS NULL) = (repository_id IS NOT NULL) AND (writer IS NULL) = (expires_at IS NOT NULL)",
            name="uploads_writer_check",
        ),
        schema="storage",
    )
    op.create_index(
        "uploads_writer", "uploads", ["writer"], schema="storage", postgresql_where=sa.text("writer IS NOT NULL")
    )
    op.create_index(
        "uploads_expires_at",
        "uploads",
        ["expires_at"],
        schema="storage",
        postgresql_where=sa.text("expires_at IS NOT NULL"),
    )
    op.create_table(
        "discards",
        sa.Column("store_id", sa.SmallInteger(), autoincrement=False, nullable=False),
        sa.Column("name", sa.String(81, collation="C"), nullable=False),
        sa.Column("due_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("writable_until", sa.DateTime(timezone=True), nullable=True),
        sa.PrimaryKeyConstraint("store_id", "name"),
        schema="storage",
    )
    op.create_index("ix_storage_discards_due_at", "discards", ["due_at"], schema="storage")
    op.execute(
        "INSERT INTO storage.contents (store_id, oid, name)"
        " SELECT DISTINCT 1, oid, oid FROM storage.objects WHERE removed_at IS NULL"
    )
    op.execute(
        "INSERT INTO storage.discards (store_id, name, due_at) SELECT 1, oid, now() FROM storage.unclaimed_objects u"
        " WHERE NOT EXISTS (SELECT FROM storage.contents c WHERE c.oid = u.oid)"
    )


def downgrade() -> None:
    """Refuse: the version before would not find bytes under the names of this one."""
    raise NotImplementedError("the bytes that were stored since cannot be found by the version before")
