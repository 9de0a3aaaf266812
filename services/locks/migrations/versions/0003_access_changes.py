"""Tell everybody who listens, at commit, that somebody may have lost an access."""

from collections.abc import Sequence

from alembic import op

revision: str = "0003"
down_revision: str | None = "0002"
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None

_TABLES = ("users", "tokens", "repositories", "grants")


def upgrade() -> None:
    """Make a trigger on each table that decides about access.

    What is added takes no access from anybody, so only the other three kinds of change are told. A trigger that fires
    ALWAYS also does so for the rows that a replication brings.
    """
    op.execute(
        "CREATE FUNCTION notify_access_changed() RETURNS trigger LANGUAGE plpgsql AS "
        "$$BEGIN NOTIFY towpath_access_changed; RETURN NULL; END$$"
    )
    for table in _TABLES:
        op.execute(
            f"CREATE TRIGGER access_changed AFTER UPDATE OR DELETE OR TRUNCATE ON {table} "
            "FOR EACH STATEMENT EXECUTE FUNCTION notify_access_changed()"
        )
        op.execute(f"ALTER TABLE {table} ENABLE ALWAYS TRIGGER access_changed")


def downgrade() -> None:
    """Drop the triggers and what they call."""
    for table in _TABLES:
        op.execute(f"DROP TRIGGER access_changed ON {table}")
    op.execute("DROP FUNCTION notify_access_changed()")
