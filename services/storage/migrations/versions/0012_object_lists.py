"""Indexes for lists of a repository's objects by size and by time."""

from collections.abc import Sequence

from alembic import op

revision: str = "0012"
down_revision: str | None = "0011"
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None

_INDEXES = {
    "objects_held_size": "(repository_id, size, oid) WHERE removed_at IS NULL",
    "objects_held_created_at": "(repository_id, created_at) WHERE removed_at IS NULL",
    "objects_removed_size": "(repository_id, size, oid) WHERE removed_at IS NOT NULL",
    "objects_bin_oid": "(repository_id, oid) WHERE bin_until IS NOT NULL",
    "objects_bin_removed_at": "(repository_id, removed_at, oid) WHERE bin_until IS NOT NULL",
}
# Of more objects, `services.database.concurrent_indexes` builds the indexes afterwards, while uploads go on. Nobody
# uploads while a restore goes on.
_CREATE = f"""
    DO $block$
    BEGIN
        IF current_setting('towpath.restoring', true) = 'true'
            OR NOT EXISTS (SELECT FROM storage.objects OFFSET 10000)
        THEN
            {"; ".join(f"CREATE INDEX {name} ON storage.objects {what}" for name, what in _INDEXES.items())};
        END IF;
    END
    $block$
"""


def upgrade() -> None:
    """Create the indexes if there are few objects."""
    op.execute(_CREATE)


def downgrade() -> None:
    """Drop them."""
    for name in _INDEXES:
        op.execute(f"DROP INDEX IF EXISTS storage.{name}")
