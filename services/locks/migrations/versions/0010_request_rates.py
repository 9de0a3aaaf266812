"""Limits of requests of users, tokens and groups, and what was taken from them."""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

revision: str = "0010"
down_revision: str | None = "0009"
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None

_LIMITED = ("users", "tokens", "groups")

# A new member takes no access from anybody, but may be limited from then on.
_NOTIFY_LIMITED = """
    CREATE FUNCTION notify_member_limited() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    IF EXISTS (
        SELECT FROM added JOIN locks.groups ON groups.id = added.group_id WHERE groups.requests_per_hour IS NOT NULL
    ) THEN NOTIFY towpath_access_changed; END IF;
    RETURN NULL;
    END $$"""


def upgrade() -> None:
    """Add the columns and the table, and let changes of limits be told as changes of access are."""
    for table in _LIMITED:
        op.add_column(table, sa.Column("requests_per_hour", sa.BigInteger(), nullable=True))
    op.create_table(
        "rate_states",
        sa.Column("is_token", sa.Boolean(), nullable=False),
        sa.Column("holder_id", sa.BigInteger(), nullable=False),
        sa.Column("requests_per_hour", sa.BigInteger(), nullable=False),
        sa.Column("tat", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("is_token", "holder_id", "requests_per_hour", name="pk_rate_states"),
        prefixes=["UNLOGGED"],
    )
    # Room on each page for the next versions of its rows, so that updates write no index.
    op.execute("ALTER TABLE rate_states SET (fillfactor = 50)")
    op.execute(
        "CREATE TRIGGER access_changed AFTER UPDATE OR DELETE OR TRUNCATE ON groups "
        "FOR EACH STATEMENT EXECUTE FUNCTION notify_access_changed()"
    )
    op.execute("ALTER TABLE groups ENABLE ALWAYS TRIGGER access_changed")
    op.execute(_NOTIFY_LIMITED)
    op.execute(
        "CREATE TRIGGER member_limited AFTER INSERT ON group_members REFERENCING NEW TABLE AS added "
        "FOR EACH STATEMENT EXECUTE FUNCTION notify_member_limited()"
    )


def downgrade() -> None:
    """Drop them."""
    op.execute("DROP FUNCTION notify_member_limited() CASCADE")
    op.execute("DROP TRIGGER access_changed ON groups")
    op.drop_table("rate_states")
    for table in _LIMITED:
        op.drop_column(table, "requests_per_hour")
