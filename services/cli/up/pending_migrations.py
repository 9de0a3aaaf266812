"""Fast check for pending migrations: Alembic takes a second for it, and most starts have nothing to migrate."""

from pathlib import Path

from services.cli.embedded_postgres import EmbeddedPostgres
from services.common.migration_versions import newest_version

_SERVICES = Path(__file__).parents[2]
_SCHEMAS = ("storage", "locks")


async def tables_are_newest(cluster: EmbeddedPostgres) -> bool:
    """Return whether the tables of all services are at their newest version; the cluster must answer."""
    newest = [newest_version(_SERVICES / schema / "migrations" / "versions") for schema in _SCHEMAS]
    return await cluster.versions_of(_SCHEMAS) == newest
