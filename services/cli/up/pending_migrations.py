"""Whether there is anything to migrate: Alembic takes a second to find out, and most starts find nothing."""

from pathlib import Path

from services.cli.embedded_postgres import EmbeddedPostgres
from services.common.migration_versions import newest_version

_SERVICES = Path(__file__).parents[2]
_SCHEMAS = ("storage", "locks")


async def tables_are_newest(cluster: EmbeddedPostgres) -> bool:
    """Tell whether the tables of all services are at their newest version, in our own Postgres that answers."""
    newest = [newest_version(_SERVICES / schema / "migrations" / "versions") for schema in _SCHEMAS]
    return await cluster.versions_of(_SCHEMAS) == newest
