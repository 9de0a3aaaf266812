"""The audit log, and explanations of refusals."""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision: str = "0009"
down_revision: str | None = "0008"
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None

# The audited tables, each with the word for its records in types of events and in subjects.
_AUDITED = {
    "users": "user",
    "groups": "group",
    "group_members": "group.member",
    "group_grants": "group.grant",
    "repositories": "repository",
    "grants": "grant",
    "forges": "forge",
    "issuers": "issuer",
    "issuer_groups": "issuer.group",
    "issuer_grants": "issuer.grant",
    "ssh_keys": "key",
    "hooks": "hook",
}
# Credentials of forges and issuers, and those of SSH sessions, come and go all day; a sign-in of a person is recorded.
_OURS = "num_nonnulls({0}.forge_id, {0}.issuer_id, {0}.ssh_key_id) = 0"
_MADE = f"({_OURS} OR {{0}}.name LIKE 'sign-in-%')"

# A restore loads the events of these rows too.
_NOT_RESTORED = "current_setting('towpath.restoring', true) IS DISTINCT FROM 'true'"

# The fields of a row that may be told: without secrets, and with the names that its numbers stand for.
_PUBLIC_FIELDS = """
    CREATE FUNCTION audit_fields(noun text, record jsonb) RETURNS jsonb LANGUAGE sql STABLE AS $$
    SELECT record - ARRAY['token_hash', 'secret', 'path_hash', 'idempotency_key'] || jsonb_strip_nulls(
        jsonb_build_object(
            'user', (SELECT name FROM locks.users WHERE id = CAST(record->>'user_id' AS bigint)),
            'repository', (SELECT name FROM locks.repositories WHERE id = CAST(record->>'repository_id' AS bigint)),
            'group', (SELECT name FROM locks.groups WHERE id = CAST(record->>'group_id' AS bigint)),
            'forge', (SELECT name FROM locks.forges WHERE id = CAST(record->>'forge_id' AS bigint)),
            'issuer', (SELECT name FROM locks.issuers WHERE id = CAST(record->>'issuer_id' AS bigint)),
            -- Userinfo and query may be secrets, and of a hook the path too; an odd URL is left out.
            'url', CASE WHEN record ? 'url' THEN coalesce(concat_ws('', VARIADIC regexp_match(
                record->>'url',
                CASE noun WHEN 'hook' THEN '^([A-Za-z][A-Za-z0-9+.-]*://)(?:[^/?#]*@)?([^/?#]*)'
                ELSE '^([A-Za-z][A-Za-z0-9+.-]*://)(?:[^/?#]*@)?([^?#]*)' END
            )), '') END,
            'api_url', CASE WHEN record ? 'api_url' THEN coalesce(concat_ws('', VARIADIC regexp_match(
                record->>'api_url', '^([A-Za-z][A-Za-z0-9+.-]*://)(?:[^/?#]*@)?([^?#]*)'
            )), '') END
        )
    ) $$"""
_RECORD = """
    CREATE FUNCTION record_audit_event() RETURNS trigger LANGUAGE plpgsql AS $$
    DECLARE
        noun text := TG_ARGV[0];
        before jsonb;
        after jsonb;
        fields jsonb;
    BEGIN
        IF TG_OP <> 'INSERT' THEN before := locks.audit_fields(noun, to_jsonb(OLD)); END IF;
        IF TG_OP <> 'DELETE' THEN after := locks.audit_fields(noun, to_jsonb(NEW)); END IF;
        fields := coalesce(after, before);
        -- What goes with its user, repository, group or issuer is told by the event of that one.
        IF TG_OP = 'DELETE' AND (
            fields->>'user_id' IS NOT NULL AND NOT fields ? 'user'
            OR fields->>'repository_id' IS NOT NULL AND NOT fields ? 'repository'
            OR fields->>'group_id' IS NOT NULL AND NOT fields ? 'group'
            OR fields->>'issuer_id' IS NOT NULL AND NOT fields ? 'issuer'
        ) THEN RETURN NULL; END IF;
        INSERT INTO locks.audit_events (type, actor, source, request_id, subject, repository, before, after)
        VALUES (
            'org.towpath.' || noun || CASE TG_OP
                WHEN 'INSERT' THEN '.created' WHEN 'UPDATE' THEN '.changed' ELSE '.deleted' END,
            coalesce(nullif(current_setting('towpath.actor', true), ''), session_user),
            coalesce(nullif(current_setting('towpath.source', true), ''), 'database'),
            coalesce(current_setting('towpath.request_id', true), ''),
            CASE
                WHEN noun IN ('token', 'key') THEN concat(noun, ' ', fields->>'user', '/', fields->>'name')
                WHEN noun = 'hook' THEN concat('hook ', fields->>'id')
                WHEN fields ? 'name' THEN concat(noun, ' ', fields->>'name')
                ELSE concat_ws(' ', noun, fields->>'group', fields->>'issuer', fields->>'user', fields->>'repository',
                    fields->>'role', fields->>'value')
            END,
            CASE noun WHEN 'repository' THEN fields->>'name' ELSE coalesce(fields->>'repository', '') END,
            before, after
        );
        RETURN NULL;
    END $$"""
# One statement may release a hundred thousand locks.
_RECORD_RELEASED = """
    CREATE FUNCTION record_audit_of_released_locks() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    INSERT INTO locks.audit_events (type, actor, source, request_id, subject, repository, before)
    SELECT
        CASE WHEN changed.stolen THEN 'org.towpath.lock.stolen' WHEN changed.forced THEN 'org.towpath.lock.forced'
            ELSE 'org.towpath.lock.released' END,
        changed.released_by,
        coalesce(nullif(current_setting('towpath.source', true), ''), 'service'),
        coalesce(current_setting('towpath.request_id', true), ''),
        concat('lock ', changed.lock_id, ' ', changed.path), coalesce(repositories.name, ''),
        to_jsonb(changed) - ARRAY['path_hash', 'idempotency_key']
    FROM changed LEFT JOIN locks.repositories ON repositories.id = changed.repository_id
    WHERE (changed.forced OR changed.stolen OR current_setting('towpath.actor', true) <> '')
        AND current_setting('towpath.restoring', true) IS DISTINCT FROM 'true';
    RETURN NULL;
    END $$"""
_RECORD_CREATED = """
    CREATE FUNCTION record_audit_of_created_locks() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    INSERT INTO locks.audit_events (type, actor, source, request_id, subject, repository, after)
    SELECT 'org.towpath.lock.created', current_setting('towpath.actor', true), current_setting('towpath.source', true),
        current_setting('towpath.request_id', true), concat('lock ', changed.id, ' ', changed.path), repositories.name,
        locks.audit_fields('lock', to_jsonb(changed) || jsonb_build_object('owner', users.name))
    FROM changed JOIN locks.repositories ON repositories.id = changed.repository_id
        JOIN locks.users ON users.id = changed.owner_id
    WHERE changed.stolen_from IS NULL;
    RETURN NULL;
    END $$"""
_REFUSE = """
    CREATE FUNCTION refuse_audit_update() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    RAISE EXCEPTION 'rows of audit_events are never changed';
    END $$"""


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
    for name, condition in (("strangers", "user_name = ''"), ("users", "user_name <> ''")):
        op.create_index(f"ix_refusals_of_{name}", "refusals", ["id"], postgresql_where=sa.text(condition))
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
    _create_triggers()


def _create_triggers() -> None:
    """Record every change of an audited table in the transaction that makes it, whoever runs it."""
    for function in (_PUBLIC_FIELDS, _RECORD, _RECORD_RELEASED, _RECORD_CREATED, _REFUSE):
        op.execute(function)
    for table, noun in _AUDITED.items():
        _audit(table, noun, "INSERT OR DELETE")
        _audit(table, noun, "UPDATE", "OLD.* IS DISTINCT FROM NEW.*")
    _audit("tokens", "token", "INSERT", _MADE.format("NEW"))
    _audit("tokens", "token", "DELETE", _OURS.format("OLD"))
    _audit("tokens", "token", "UPDATE", f"OLD.* IS DISTINCT FROM NEW.* AND {_OURS.format('NEW')}")
    op.execute(
        "CREATE TRIGGER audited AFTER INSERT ON released_locks REFERENCING NEW TABLE AS changed "
        "FOR EACH STATEMENT EXECUTE FUNCTION record_audit_of_released_locks()"
    )
    op.execute(
        "CREATE TRIGGER audited AFTER INSERT ON locks REFERENCING NEW TABLE AS changed FOR EACH STATEMENT "
        "WHEN (current_setting('towpath.actor', true) <> '') EXECUTE FUNCTION record_audit_of_created_locks()"
    )
    op.execute(
        "CREATE TRIGGER unchanging BEFORE UPDATE ON audit_events FOR EACH ROW EXECUTE FUNCTION refuse_audit_update()"
    )


def _audit(table: str, noun: str, operations: str, condition: str = "true") -> None:
    op.execute(
        f"CREATE TRIGGER audited_{operations.lower().replace(' ', '_')} AFTER {operations} ON {table} FOR EACH ROW "
        f"WHEN ({condition} AND {_NOT_RESTORED}) EXECUTE FUNCTION record_audit_event('{noun}')"
    )


def downgrade() -> None:
    """Drop them."""
    op.execute("DROP FUNCTION record_audit_event() CASCADE")
    op.execute("DROP FUNCTION record_audit_of_released_locks() CASCADE")
    op.execute("DROP FUNCTION record_audit_of_created_locks() CASCADE")
    op.execute("DROP FUNCTION audit_fields(text, jsonb)")
    op.execute("DROP FUNCTION refuse_audit_update() CASCADE")
    op.drop_table("audit_events")
    op.drop_table("refusals")
