"""Archived repositories, repositories in the bin, and earlier names of repositories."""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

revision: str = "0011"
down_revision: str | None = "0010"
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None


def upgrade() -> None:
    """Add the columns and the table; the end of an earlier name is told as a change of access."""
    # No column of storage.objects has these names, because `towpath check` of the version before joins both tables.
    for column in ("archived_at", "in_bin_since", "in_bin_until"):
        op.add_column("repositories", sa.Column(column, sa.DateTime(timezone=True), nullable=True))
    op.add_column(
        "repositories",
        sa.Column("removed_name", sa.Text(collation="C"), server_default=sa.text("''"), nullable=False),
    )
    op.create_index(
        "ix_repositories_removed_name_in_bin_since",
        "repositories",
        ["removed_name", "in_bin_since"],
        postgresql_where=sa.text("in_bin_since IS NOT NULL"),
    )
    op.create_table(
        "repository_aliases",
        sa.Column("name", sa.Text(collation="C"), nullable=False),
        sa.Column("repository_id", sa.BigInteger(), nullable=False),
        sa.Column("valid_until", sa.DateTime(timezone=True), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.PrimaryKeyConstraint("name", name="pk_repository_aliases"),
        sa.ForeignKeyConstraint(
            ["repository_id"], ["repositories.id"], name="fk_repository_aliases_repository_id", ondelete="CASCADE"
        ),
    )
    op.create_index("ix_repository_aliases_repository_id", "repository_aliases", ["repository_id"])
    op.execute(
        "CREATE TRIGGER access_changed AFTER UPDATE OR DELETE OR TRUNCATE ON repository_aliases "
        "FOR EACH STATEMENT EXECUTE FUNCTION notify_access_changed()"
    )
    op.execute("ALTER TABLE repository_aliases ENABLE ALWAYS TRIGGER access_changed")


def downgrade() -> None:
    """Drop them; repositories in the bin keep the names that nobody can ask for."""
    op.drop_table("repository_aliases")
    op.drop_index("ix_repositories_removed_name_in_bin_since", "repositories")
    for column in ("archived_at", "in_bin_since", "in_bin_until", "removed_name"):
        op.drop_column("repositories", column)
