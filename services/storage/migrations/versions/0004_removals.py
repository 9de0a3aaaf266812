"""Tell everybody who listens, at commit, that an object may have been removed, or its bytes be doubted."""

from collections.abc import Sequence

from alembic import op

revision: str = "0004"
down_revision: str | None = "0003"
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None

_CHANGES = {
    "objects": "AFTER UPDATE OF removed_at OR DELETE OR TRUNCATE ON storage.objects FOR EACH STATEMENT",
    # Each upload may update a row, so that a trigger for each statement would fire for all of them.
    "contents": "AFTER UPDATE OF is_doubted ON storage.contents FOR EACH ROW WHEN (NEW.is_doubted)",
}


def upgrade() -> None:
    """Make a trigger on each table that decides whether an object is read, and where.

    Bytes that only lie elsewhere from now on are not told: a file is good for as long as it is there. A trigger that
    fires ALWAYS also does so for the rows that a replication brings.
    """
    op.execute(
        "CREATE FUNCTION storage.notify_object_removed() RETURNS trigger LANGUAGE plpgsql AS "
        "$$BEGIN NOTIFY towpath_object_removed; RETURN NULL; END$$"
    )
    for table, changes in _CHANGES.items():
        op.execute(f"CREATE TRIGGER object_removed {changes} EXECUTE FUNCTION storage.notify_object_removed()")
        op.execute(f"ALTER TABLE storage.{table} ENABLE ALWAYS TRIGGER object_removed")


def downgrade() -> None:
    """Drop the triggers and what they call."""
    for table in _CHANGES:
        op.execute(f"DROP TRIGGER object_removed ON storage.{table}")
    op.execute("DROP FUNCTION storage.notify_object_removed()")
