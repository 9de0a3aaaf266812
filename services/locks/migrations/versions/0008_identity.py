"""Groups, forges, issuers, identities and SSH keys, and one view of all grants that count."""

from collections.abc import Sequence
from typing import Any

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision: str = "0008"
down_revision: str | None = "0007"
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None

_DECIDING = (
    *("group_members", "group_grants", "forges", "issuers", "issuer_grants", "issuer_groups"),
    *("token_groups", "token_grants", "identities", "ssh_keys"),
)

# Every grant that counts for a user, or for one of its tokens only; `token_id` is 0 where it counts for all of them.
# A column has one type in every part: Postgres takes no condition into the parts of a union that differ in it.
_ACCESS_GRANTS = """
    CREATE VIEW access_grants AS
    SELECT id, 'user' COLLATE "C" AS source, '' COLLATE "C" AS source_name, user_id,
        CAST(0 AS bigint) AS token_id, repository_id, role,
        ref_patterns, ignores_locks, created_at
    FROM grants
    UNION ALL
    SELECT group_grants.id, 'group' COLLATE "C", groups.name, group_members.user_id,
        CAST(0 AS bigint), repository_id, role, ref_patterns, ignores_locks, group_grants.created_at
    FROM group_grants JOIN groups ON groups.id = group_grants.group_id
        JOIN group_members ON group_members.group_id = groups.id
    UNION ALL
    SELECT group_grants.id, 'group' COLLATE "C", groups.name, tokens.user_id, tokens.id, repository_id, role,
        ref_patterns, ignores_locks, group_grants.created_at
    FROM group_grants JOIN groups ON groups.id = group_grants.group_id
        JOIN token_groups ON token_groups.group_id = groups.id JOIN tokens ON tokens.id = token_groups.token_id
    UNION ALL
    SELECT issuer_grants.id, 'issuer' COLLATE "C", issuers.name, tokens.user_id, tokens.id, repository_id, role,
        CASE WHEN token_grants.ref = '' THEN '{}' ELSE ARRAY[CAST(token_grants.ref AS text)] END, false,
        issuer_grants.created_at
    FROM issuer_grants JOIN issuers ON issuers.id = issuer_grants.issuer_id
        JOIN token_grants ON token_grants.issuer_grant_id = issuer_grants.id
        JOIN tokens ON tokens.id = token_grants.token_id
    UNION ALL
    SELECT CAST(0 AS bigint), 'forge' COLLATE "C", forges.name, tokens.user_id, tokens.id, repositories.id,
        token_roles.role, '{}', false, token_roles.created_at
    FROM token_roles JOIN tokens ON tokens.id = token_roles.token_id
        JOIN repositories ON repositories.id = token_roles.repository_id AND repositories.forge_id = tokens.forge_id
        JOIN forges ON forges.id = repositories.forge_id
    WHERE token_roles.valid_until > now() AND NOT (repositories.restricted AND token_roles.role = 'read')
"""


def _id() -> sa.Column[int]:
    return sa.Column("id", sa.BigInteger(), sa.Identity(always=True), nullable=False)


def _number(name: str, *, nullable: bool = False) -> sa.Column[int]:
    return sa.Column(name, sa.BigInteger(), nullable=nullable)


def _text(name: str, *, empty: bool = False) -> sa.Column[str]:
    default = sa.text("''") if empty else None
    return sa.Column(name, sa.Text(collation="C"), server_default=default, nullable=False)


def _texts(name: str) -> sa.Column[list[str]]:
    return sa.Column(name, postgresql.ARRAY(sa.Text()), server_default=sa.text("'{}'"), nullable=False)


def _flag(name: str) -> sa.Column[bool]:
    return sa.Column(name, sa.Boolean(), server_default=sa.text("false"), nullable=False)


def _now(name: str = "created_at") -> sa.Column[object]:
    return sa.Column(name, sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False)


def _refers(table: str, column: str, target: str, *, on_delete: str = "CASCADE") -> sa.ForeignKeyConstraint:
    return sa.ForeignKeyConstraint([column], [f"{target}.id"], name=f"fk_{table}_{column}", ondelete=on_delete)


def _add_reference(table: str, column: str, target: str, *, on_delete: str) -> None:
    """Add a column that is empty or refers to the id of a row."""
    reference = f"CONSTRAINT fk_{table}_{column} REFERENCES {target} (id) ON DELETE {on_delete}"
    op.execute(f"ALTER TABLE {table} ADD COLUMN {column} bigint {reference}")


def _named(table: str, *columns: sa.Column[Any] | sa.UniqueConstraint) -> None:
    """Create a table whose rows have an id, a unique name, and the time of their creation."""
    op.create_table(
        table,
        _id(),
        _text("name"),
        *columns,
        _now(),
        sa.PrimaryKeyConstraint("id", name=f"pk_{table}"),
        sa.UniqueConstraint("name", name=f"uq_{table}_name"),
    )


def upgrade() -> None:
    """Create the tables, and the triggers that notify of every change that may take an access from somebody."""
    _create_groups()
    _create_forges()
    _create_issuers()
    _create_identities()
    op.execute(_ACCESS_GRANTS)
    for table in _DECIDING:
        op.execute(
            f"CREATE TRIGGER access_changed AFTER UPDATE OR DELETE OR TRUNCATE ON {table} "
            "FOR EACH STATEMENT EXECUTE FUNCTION notify_access_changed()"
        )
        op.execute(f"ALTER TABLE {table} ENABLE ALWAYS TRIGGER access_changed")


def _create_groups() -> None:
    _named("groups")
    op.create_table(
        "group_members",
        _number("group_id"),
        _number("user_id"),
        _now(),
        sa.PrimaryKeyConstraint("group_id", "user_id", name="pk_group_members"),
        _refers("group_members", "group_id", "groups"),
        _refers("group_members", "user_id", "users"),
    )
    op.create_index("ix_group_members_user_id", "group_members", ["user_id"])
    op.create_table(
        "group_grants",
        _id(),
        _number("group_id"),
        _number("repository_id"),
        _text("role"),
        _texts("ref_patterns"),
        _now(),
        _flag("ignores_locks"),
        sa.PrimaryKeyConstraint("id", name="pk_group_grants"),
        sa.UniqueConstraint("group_id", "repository_id", "role", name="uq_group_grants_group_id_repository_id_role"),
        sa.CheckConstraint("role IN ('read', 'write', 'admin')", name="ck_group_grants_role"),
        _refers("group_grants", "group_id", "groups"),
        _refers("group_grants", "repository_id", "repositories"),
    )
    op.create_index("ix_group_grants_repository_id", "group_grants", ["repository_id"])


def _create_forges() -> None:
    _named("forges", _text("kind"), _text("api_url"), _texts("repositories"), _flag("creates_on_use"))
    op.create_check_constraint("ck_forges_kind", "forges", "kind IN ('github', 'gitlab', 'gitea', 'forgejo')")
    _add_reference("repositories", "forge_id", "forges", on_delete="RESTRICT")
    op.add_column("repositories", _text("forge_repository", empty=True))
    op.add_column("repositories", _flag("restricted"))
    op.create_index("ix_repositories_forge_id", "repositories", ["forge_id"])
    _add_reference("tokens", "forge_id", "forges", on_delete="CASCADE")
    op.create_index("ix_tokens_forge_id", "tokens", ["forge_id"], postgresql_where=sa.text("forge_id IS NOT NULL"))
    op.create_table(
        "token_roles",
        _number("token_id"),
        _number("repository_id"),
        _text("role"),
        sa.Column("valid_until", sa.DateTime(timezone=True), nullable=False),
        _now(),
        sa.PrimaryKeyConstraint("token_id", "repository_id", name="pk_token_roles"),
        sa.CheckConstraint("role IN ('read', 'write', 'admin')", name="ck_token_roles_role"),
        _refers("token_roles", "token_id", "tokens"),
        _refers("token_roles", "repository_id", "repositories"),
    )
    op.create_index("ix_token_roles_repository_id", "token_roles", ["repository_id"])
    op.create_table(
        "forge_lookups",
        _number("forge_id"),
        _flag("is_known"),
        _now("budget_until"),
        sa.PrimaryKeyConstraint("forge_id", "is_known", name="pk_forge_lookups"),
        _refers("forge_lookups", "forge_id", "forges"),
        prefixes=["UNLOGGED"],
    )


def _create_issuers() -> None:
    _named(
        "issuers",
        _text("url"),
        _texts("audiences"),
        _text("client_id", empty=True),
        _text("user_claim", empty=True),
        _text("groups_claim", empty=True),
        sa.UniqueConstraint("url", name="uq_issuers_url"),
    )
    op.create_table(
        "issuer_groups",
        _number("issuer_id"),
        _text("value"),
        _number("group_id"),
        sa.PrimaryKeyConstraint("issuer_id", "value", "group_id", name="pk_issuer_groups"),
        _refers("issuer_groups", "issuer_id", "issuers"),
        _refers("issuer_groups", "group_id", "groups"),
    )
    op.create_index("ix_issuer_groups_group_id", "issuer_groups", ["group_id"])
    op.create_table(
        "issuer_grants",
        _id(),
        _number("issuer_id"),
        _number("repository_id"),
        _text("role"),
        sa.Column("claims", postgresql.JSONB(), nullable=False),
        _text("ref_claim", empty=True),
        _now(),
        sa.PrimaryKeyConstraint("id", name="pk_issuer_grants"),
        sa.CheckConstraint("role IN ('read', 'write', 'admin')", name="ck_issuer_grants_role"),
        _refers("issuer_grants", "issuer_id", "issuers"),
        _refers("issuer_grants", "repository_id", "repositories"),
    )
    op.create_index("ix_issuer_grants_issuer_id", "issuer_grants", ["issuer_id"])
    op.create_index("ix_issuer_grants_repository_id", "issuer_grants", ["repository_id"])
    _add_reference("tokens", "issuer_id", "issuers", on_delete="CASCADE")
    op.create_index(
        "ix_tokens_issuer_id_expires_at",
        "tokens",
        ["issuer_id", "expires_at"],
        postgresql_where=sa.text("issuer_id IS NOT NULL"),
    )
    op.create_table(
        "token_groups",
        _number("token_id"),
        _number("group_id"),
        sa.PrimaryKeyConstraint("token_id", "group_id", name="pk_token_groups"),
        _refers("token_groups", "token_id", "tokens"),
        _refers("token_groups", "group_id", "groups"),
    )
    op.create_index("ix_token_groups_group_id", "token_groups", ["group_id"])
    op.create_table(
        "token_grants",
        _number("token_id"),
        _number("issuer_grant_id"),
        _text("ref", empty=True),
        sa.PrimaryKeyConstraint("token_id", "issuer_grant_id", name="pk_token_grants"),
        _refers("token_grants", "token_id", "tokens"),
        _refers("token_grants", "issuer_grant_id", "issuer_grants"),
    )
    op.create_index("ix_token_grants_issuer_grant_id", "token_grants", ["issuer_grant_id"])


def _create_identities() -> None:
    op.create_table(
        "identities",
        _id(),
        _number("user_id"),
        _number("forge_id", nullable=True),
        _number("issuer_id", nullable=True),
        _text("subject"),
        _text("login"),
        _now(),
        sa.PrimaryKeyConstraint("id", name="pk_identities"),
        sa.UniqueConstraint("forge_id", "subject", name="uq_identities_forge_id_subject"),
        sa.UniqueConstraint("issuer_id", "subject", name="uq_identities_issuer_id_subject"),
        sa.CheckConstraint("num_nonnulls(forge_id, issuer_id) = 1", name="ck_identities_provider"),
        _refers("identities", "user_id", "users"),
        _refers("identities", "forge_id", "forges"),
        _refers("identities", "issuer_id", "issuers"),
    )
    op.create_index("ix_identities_user_id", "identities", ["user_id"])
    op.create_table(
        "ssh_keys",
        _id(),
        _number("user_id"),
        _text("name"),
        _text("fingerprint"),
        _text("public_key"),
        _now(),
        sa.PrimaryKeyConstraint("id", name="pk_ssh_keys"),
        sa.UniqueConstraint("user_id", "name", name="uq_ssh_keys_user_id_name"),
        sa.UniqueConstraint("fingerprint", name="uq_ssh_keys_fingerprint"),
        _refers("ssh_keys", "user_id", "users"),
    )
    _add_reference("tokens", "ssh_key_id", "ssh_keys", on_delete="CASCADE")
    op.create_index(
        "ix_tokens_ssh_key_id", "tokens", ["ssh_key_id"], postgresql_where=sa.text("ssh_key_id IS NOT NULL")
    )


def downgrade() -> None:
    """Drop them; the tokens of forges and issuers end."""
    op.execute("DROP VIEW access_grants")
    op.execute("DELETE FROM tokens WHERE num_nonnulls(forge_id, issuer_id, ssh_key_id) > 0")
    op.drop_column("tokens", "ssh_key_id")
    for table in ("ssh_keys", "identities", "token_grants", "token_groups", "token_roles"):
        op.drop_table(table)
    op.drop_column("tokens", "issuer_id")
    op.drop_column("tokens", "forge_id")
    for column in ("forge_id", "forge_repository", "restricted"):
        op.drop_column("repositories", column)
    for table in ("issuer_grants", "issuer_groups", "issuers", "forge_lookups", "forges"):
        op.drop_table(table)
    for table in ("group_grants", "group_members", "groups"):
        op.drop_table(table)
