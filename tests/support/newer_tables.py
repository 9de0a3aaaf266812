"""Tables as a later version of Towpath would migrate them."""

import shutil
from dataclasses import replace
from pathlib import Path

from pydantic import SecretStr

from services.common.migration_versions import newest_version
from services.database.migrations import migrate
from services.database.versions import Schema
from services.locks.models import SCHEMA as LOCKS
from services.storage.index.schema import SCHEMA as STORAGE

_MIGRATION = '''"""A migration of a version that is yet to be."""

from alembic import op

revision = "{revision}"
down_revision = "{before}"
{constants}

def upgrade():
    op.execute("CREATE TABLE of_version_{revision} (id bigint PRIMARY KEY)")
    op.execute("ALTER TABLE {table} ADD COLUMN of_version_{revision} bigint NOT NULL DEFAULT 0")
'''

# The tables that most statements of each service are about.
_WIDENED = {LOCKS.name: "locks", STORAGE.name: "objects"}


def later_version(schema: Schema, versions: Path, *, constants: str = "") -> Schema:
    """Return the schema with one migration more, whose files lie in `versions`; `constants` is a part of it.

    The migration makes a table, and a column in one that all use.

    Called again with what it returns, it adds another one.
    """
    if versions != schema.versions:
        shutil.copytree(schema.versions, versions, ignore=shutil.ignore_patterns("__pycache__"))
    before = newest_version(schema.versions)
    revision = f"{int(before) + 1:04}"
    table = _WIDENED[schema.name]
    text = _MIGRATION.format(revision=revision, before=before, constants=constants, table=table)
    (versions / f"{revision}_later.py").write_text(text)
    return replace(schema, versions=versions)


async def migrate_later(url: SecretStr, schema: Schema, versions: Path, *, constants: str = "") -> Schema:
    """Migrate the tables by one version more than the schema knows, and return the schema that knows it."""
    later = later_version(schema, versions, constants=constants)
    await migrate(url, later)
    return later
