"""Statements of a migration that the version before it would stumble over, while both run or after a step back."""

import io
import re
from types import ModuleType

from alembic.operations import Operations
from alembic.runtime.migration import MigrationContext

_CREATED = re.compile(r'^CREATE TABLE (?:IF NOT EXISTS )?([\w."]+)', re.IGNORECASE)
_TABLE = re.compile(r'^(?:ALTER TABLE (?:ONLY )?|CREATE UNIQUE INDEX .*? ON )([\w."]+)', re.IGNORECASE)
_BREACHES = {
    "drops a table": re.compile(r"^(DROP TABLE|TRUNCATE)\b", re.IGNORECASE),
    "drops a column": re.compile(r"^ALTER TABLE .* DROP COLUMN\b", re.IGNORECASE),
    "renames": re.compile(r"^ALTER (TABLE|INDEX|SEQUENCE) .* RENAME\b", re.IGNORECASE),
    "changes a type": re.compile(r"^ALTER TABLE .* ALTER COLUMN \S+ (SET DATA )?TYPE\b", re.IGNORECASE),
    "forbids NULL": re.compile(r"^ALTER TABLE .* SET NOT NULL\b", re.IGNORECASE),
    "takes a default away": re.compile(r"^ALTER TABLE .* DROP DEFAULT\b", re.IGNORECASE),
    "adds a column that must be given": re.compile(
        r"^ALTER TABLE .* ADD COLUMN (?!.*\b(DEFAULT|GENERATED)\b).*\bNOT NULL\b", re.IGNORECASE
    ),
    "adds a constraint": re.compile(
        r"^(ALTER TABLE .* ADD (CONSTRAINT|CHECK|UNIQUE|FOREIGN|PRIMARY)\b|CREATE UNIQUE INDEX\b)", re.IGNORECASE
    ),
}


def statements_of(migration: ModuleType) -> list[str]:
    """Return the SQL of a migration's upgrade, each statement in one line, without running it."""
    written = io.StringIO()
    context = MigrationContext.configure(
        dialect_name="postgresql", opts={"as_sql": True, "output_buffer": written, "literal_binds": True}
    )
    with Operations.context(context):
        migration.upgrade()
    return [line for text in written.getvalue().split(";") if (line := " ".join(text.split()))]


def breaches(statements: list[str]) -> list[str]:
    """Return what is wrong with each statement that the version before could stumble over; new tables are free."""
    new: set[str] = set()
    found = []
    for statement in statements:
        if created := _CREATED.match(statement):
            new.add(created.group(1))
        if (table := _TABLE.match(statement)) and table.group(1) in new:
            continue
        found += [f"{what}: {statement}" for what, pattern in _BREACHES.items() if pattern.match(statement)]
    return found
