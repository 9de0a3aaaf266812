"""Users, tokens, repositories, grants, locks and their history."""

from collections.abc import Sequence
from datetime import datetime

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision: str = "0001"
down_revision: str | None = None
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None


def _identity() -> sa.Column[int]:
    return sa.Column("id", sa.BigInteger(), sa.Identity(always=True), nullable=False)


def _number(name: str) -> sa.Column[int]:
    return sa.Column(name, sa.BigInteger(), nullable=False)


def _text(name: str) -> sa.Column[str]:
    return sa.Column(name, sa.Text(collation="C"), nullable=False)


def _moment(name: str, *, now: bool = False, nullable: bool = False) -> sa.Column[datetime]:
    default = sa.text("now()") if now else None
    return sa.Column(name, sa.DateTime(timezone=True), server_default=default, nullable=nullable)


def upgrade() -> None:
    """Make the tables."""
    op.create_table(
        "users",
        _identity(),
        _text("name"),
        sa.Column("administrator", sa.Boolean(), nullable=False),
        _moment("created_at", now=True),
        sa.PrimaryKeyConstraint("id", name="pk_users"),
        sa.UniqueConstraint("name", name="uq_users_name"),
    )
    op.create_table(
        "tokens",
        _identity(),
        _number("user_id"),
        _text("name"),
        sa.Column("token_hash", sa.LargeBinary(), nullable=False),
        _moment("created_at", now=True),
        _moment("expires_at", nullable=True),
        sa.PrimaryKeyConstraint("id", name="pk_tokens"),
        sa.ForeignKeyConstraint(["user_id"], ["users.id"], name="fk_tokens_user_id", ondelete="CASCADE"),
        sa.UniqueConstraint("token_hash", name="uq_tokens_token_hash"),
        sa.UniqueConstraint("user_id", "name", name="uq_tokens_user_id_name"),
    )
    op.create_table(
        "repositories",
        _identity(),
        _text("name"),
        sa.Column("public", sa.Boolean(), nullable=False),
        _text("forced_unlock"),
        _moment("created_at", now=True),
        sa.PrimaryKeyConstraint("id", name="pk_repositories"),
        sa.UniqueConstraint("name", name="uq_repositories_name"),
        sa.CheckConstraint("forced_unlock IN ('writers', 'admins')", name="ck_repositories_forced_unlock"),
    )
    op.create_table(
        "removed_repositories",
        _number("id"),
        _text("name"),
        sa.Column("public", sa.Boolean(), nullable=False),
        _text("forced_unlock"),
        _moment("created_at"),
        sa.PrimaryKeyConstraint("id", name="pk_removed_repositories"),
    )
    op.create_table(
        "grants",
        _identity(),
        _number("user_id"),
        _number("repository_id"),
        _text("role"),
        sa.Column("ref_patterns", postgresql.ARRAY(sa.Text()), nullable=False),
        _moment("created_at", now=True),
        sa.PrimaryKeyConstraint("id", name="pk_grants"),
        sa.ForeignKeyConstraint(["user_id"], ["users.id"], name="fk_grants_user_id", ondelete="CASCADE"),
        sa.ForeignKeyConstraint(
            ["repository_id"], ["repositories.id"], name="fk_grants_repository_id", ondelete="CASCADE"
        ),
        sa.UniqueConstraint("user_id", "repository_id", "role", name="uq_grants_user_id_repository_id_role"),
        sa.CheckConstraint("role IN ('read', 'write', 'admin')", name="ck_grants_role"),
    )
    op.create_index("ix_grants_repository_id", "grants", ["repository_id"])
    op.create_table(
        "locks",
        _identity(),
        _number("repository_id"),
        _text("path"),
        sa.Column("path_hash", sa.LargeBinary(), nullable=False),
        _number("owner_id"),
        _moment("locked_at"),
        _text("idempotency_key"),
        sa.PrimaryKeyConstraint("id", name="pk_locks"),
        sa.ForeignKeyConstraint(
            ["repository_id"], ["repositories.id"], name="fk_locks_repository_id", ondelete="RESTRICT"
        ),
        sa.ForeignKeyConstraint(["owner_id"], ["users.id"], name="fk_locks_owner_id", ondelete="RESTRICT"),
        sa.UniqueConstraint("repository_id", "path_hash", name="uq_locks_repository_id_path_hash"),
    )
    op.create_index("ix_locks_repository_id_id", "locks", ["repository_id", "id"])
    op.create_index("ix_locks_owner_id", "locks", ["owner_id"])
    op.create_table(
        "released_locks",
        _identity(),
        _number("lock_id"),
        _number("repository_id"),
        _text("path"),
        sa.Column("path_hash", sa.LargeBinary(), nullable=False),
        _number("owner_id"),
        _text("owner_name"),
        _moment("locked_at"),
        _moment("released_at", now=True),
        _number("released_by_id"),
        _text("released_by"),
        sa.Column("forced", sa.Boolean(), nullable=False),
        _text("idempotency_key"),
        sa.PrimaryKeyConstraint("id", name="pk_released_locks"),
        sa.UniqueConstraint("lock_id", name="uq_released_locks_lock_id"),
    )
    op.create_index("ix_released_locks_repository_id_id", "released_locks", ["repository_id", "id"])
    op.create_index(
        "ix_released_locks_repository_id_path_hash_id", "released_locks", ["repository_id", "path_hash", "id"]
    )


def downgrade() -> None:
    """Drop the tables."""
    for table in ("released_locks", "locks", "grants", "removed_repositories", "repositories", "tokens", "users"):
        op.drop_table(table)
