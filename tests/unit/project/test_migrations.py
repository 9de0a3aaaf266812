"""Migrations keep the version before them running, and those that are released never change."""

import hashlib
import json
from pathlib import Path
from types import ModuleType

import pytest
from alembic import op
from alembic.script import ScriptDirectory
from alembic.script.base import Script
from sqlalchemy import BigInteger, Column, Text

from services.common.migration_versions import newest_version
from services.database.migrations import oldest_service
from services.database.versions import Schema
from services.locks.models import SCHEMA as LOCKS
from services.storage.index.schema import SCHEMA as STORAGE
from tests.support.migration_rules import breaches, statements_of
from tests.support.sources import ROOT, fail_with, name

RECORDED: dict[str, str] = json.loads((ROOT / "tests" / "released" / "migrations.json").read_text())


def _scripts_of(schema: Schema) -> list[Script]:
    folder = ScriptDirectory(str(schema.versions.parent), version_locations=[str(schema.versions)])
    return list(folder.walk_revisions())


def test_a_released_migration_never_changes() -> None:
    """The file of a migration is the one that was released: an edit does not take back what it did to tables."""
    found = {name: hashlib.sha256((ROOT / name).read_bytes()).hexdigest() for name in RECORDED}
    fail_with(f"{name}: not as it was released" for name, digest in found.items() if digest != RECORDED[name])


def test_the_version_before_keeps_running() -> None:
    """A migration takes nothing away and asks for nothing new, unless it says in `CONTRACTS` why nobody needs it."""
    scripts = [*_scripts_of(STORAGE), *_scripts_of(LOCKS)]
    kept = [script for script in scripts if not getattr(script.module, "CONTRACTS", "")]
    fail_with(
        f"{name(Path(script.path))}: {breach}" for script in kept for breach in breaches(statements_of(script.module))
    )


@pytest.mark.parametrize("schema", [STORAGE, LOCKS], ids=lambda schema: schema.name)
def test_the_oldest_service_is_a_version(schema: Schema) -> None:
    """The oldest service that the tables name must be a version that such a service knows."""
    assert oldest_service(schema) in {None, *(script.revision for script in _scripts_of(schema))}


@pytest.mark.parametrize("schema", [STORAGE, LOCKS], ids=lambda schema: schema.name)
def test_the_names_of_the_files_tell_the_versions(schema: Schema) -> None:
    """The services take the newest version from the file names, so Alembic must migrate to the same version."""
    assert newest_version(schema.versions) == _scripts_of(schema)[0].revision
    assert all(Path(script.path).name.startswith(f"{script.revision}_") for script in _scripts_of(schema))


def _migration(*operations: object) -> ModuleType:
    module = ModuleType("made")

    def upgrade() -> None:
        for operation in operations:
            assert callable(operation)
            operation()

    module.upgrade = upgrade  # type: ignore[attr-defined] # a module has what is put into it
    return module


@pytest.mark.parametrize(
    ("operation", "what"),
    [
        (lambda: op.drop_table("users", schema="locks"), "drops a table"),
        (lambda: op.drop_column("users", "name"), "drops a column"),
        (lambda: op.rename_table("users", "people"), "renames"),
        (lambda: op.alter_column("users", "name", new_column_name="label"), "renames"),
        (lambda: op.alter_column("users", "id", type_=Text()), "changes a type"),
        (lambda: op.alter_column("users", "name", nullable=False), "forbids NULL"),
        (lambda: op.alter_column("users", "name", server_default=None), "takes a default away"),
        (lambda: op.add_column("users", Column("age", BigInteger(), nullable=False)), "adds a column that must be"),
        (lambda: op.create_unique_constraint("one", "users", ["name"]), "adds a constraint"),
        (lambda: op.create_check_constraint("one", "users", "name <> ''"), "adds a constraint"),
        (lambda: op.create_index("one", "users", ["name"], unique=True), "adds a constraint"),
        (lambda: op.execute("TRUNCATE users"), "drops a table"),
    ],
)
def test_breaches_are_found(operation: object, what: str) -> None:
    """Each way to break the version before has its name."""
    [found] = breaches(statements_of(_migration(operation)))
    assert found.startswith(what)


def test_what_expands_is_free() -> None:
    """New tables with all their constraints, columns that may be left out, and indexes break nothing."""
    migration = _migration(
        lambda: op.create_table("plans", Column("id", BigInteger(), primary_key=True)),
        lambda: op.create_unique_constraint("one", "plans", ["id"]),
        lambda: op.add_column("users", Column("note", Text(), nullable=True)),
        lambda: op.add_column("users", Column("age", BigInteger(), nullable=False, server_default="0")),
        lambda: op.alter_column("users", "name", nullable=True),
        lambda: op.create_index("two", "users", ["name"]),
    )
    assert breaches(statements_of(migration)) == []
