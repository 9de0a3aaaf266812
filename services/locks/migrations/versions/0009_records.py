"""The audit log, and explanations of refusals."""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision: str = "0009"
down_revision: str | None = "0008"
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None


def _text(name: str, *, empty: bool = False) -> sa.Column[str]:
    default = sa.text("''") if empty else None
    return sa.Column(name, sa.Text(collation="C"), server_default=default, nullable=False)


def _now() -> sa.Column[object]:
    return sa.Column("created_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False)


def upgrade() -> None:
    """Create the tables; the audit log has a partition for each month, so that old months are dropped whole."""
    op.create_table(
        "refusals",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=True), nullable=False),
        _text("request_id"),
        _now(),
        _text("reason"),
        _text("message"),
        _text("rule"),
        _text("source", empty=True),
        _text("user_name", empty=True),
        _text("repository", empty=True),
        _text("permission", empty=True),
        _text("ref", empty=True),
        sa.Column("groups", postgresql.ARRAY(sa.Text()), server_default=sa.text("'{}'"), nullable=False),
        sa.Column("grants", postgresql.JSONB(), server_default=sa.text("'[]'"), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_refusals"),
    )
    op.create_index("ix_refusals_request_id", "refusals", ["request_id"])
    op.create_index("ix_refusals_created_at", "refusals", ["created_at"])
    # An identity column of a partitioned table needs Postgres 17.
    op.execute("CREATE SEQUENCE audit_events_id")
    op.create_table(
        "audit_events",
        sa.Column("id", sa.BigInteger(), server_default=sa.text("nextval('audit_events_id')"), nullable=False),
        _now(),
        _text("type"),
        _text("actor"),
        _text("source", empty=True),
        _text("request_id", empty=True),
        _text("subject", empty=True),
        _text("repository", empty=True),
        sa.Column("before", postgresql.JSONB(), nullable=True),
        sa.Column("after", postgresql.JSONB(), nullable=True),
        sa.PrimaryKeyConstraint("created_at", "id", name="pk_audit_events"),
        postgresql_partition_by="RANGE (created_at)",
    )
    op.execute("ALTER SEQUENCE audit_events_id OWNED BY audit_events.id")
    # Rows of a month for which no partition has been made yet.
    op.execute("CREATE TABLE audit_events_other PARTITION OF audit_events DEFAULT")


def downgrade() -> None:
    """Drop them."""
    op.drop_table("audit_events")
    op.drop_table("refusals")
