"""Prometheus metrics of the lock service, except those of its gRPC calls."""

from collections.abc import Sequence

from prometheus_client import Counter, Gauge
from sqlalchemy import func, select
from sqlalchemy.ext.asyncio import AsyncConnection
from sqlmodel import col

from services.common.observability.metrics import Snapshot
from services.database.transactions import Database
from services.locks.models import Lock, Repository

LOCKS_CREATED = Counter("towpath_locks_created_total", "Locks that were given.")
LOCK_CONFLICTS = Counter("towpath_lock_conflicts_total", "Locks that were refused, as another holds the path.")
LOCKS_STOLEN = Counter("towpath_locks_stolen_total", "Locks that made way for a lock of another user.")

WATCHES = Gauge("towpath_lock_watch_calls", "Calls that watch the changes of the locks of a repository.")

WEBHOOK_DELIVERIES = Counter(
    "towpath_webhook_deliveries_total", "Attempts to deliver an event to a webhook, by what came of them.", ["result"]
)
WEBHOOK_PENDING = Gauge("towpath_webhook_deliveries_pending", "Deliveries to webhooks that are still to be made.")

FORGE_LOOKUPS = Counter(
    "towpath_forge_lookups_total", "Look-ups of credentials at forges, by what came of them.", ["forge", "outcome"]
)
KEY_SET_READINGS = Counter(
    "towpath_key_set_readings_total",
    "Readings of the keys of issuers of JSON Web Tokens, by what came of them.",
    ["result"],
)
JSON_WEB_TOKENS = Counter(
    "towpath_json_web_tokens_total", "JSON Web Tokens that were not known before, by what came of them.", ["result"]
)

_RELEASED = Counter("towpath_locks_released_total", "Locks that were released one by one.", ["forced"])
_LOCKS = Snapshot("towpath_locks", "Locks that stand in a repository.", ["repository_id"])
_REPOSITORIES = Snapshot(
    "towpath_repository_info", "The name of a repository; always 1.", ["repository_id", "repository"]
)


def count_released(*, forced: bool) -> None:
    """Count a released lock; `forced` means that a user other than its owner released it."""
    _RELEASED.labels(str(forced).lower()).inc()


async def refresh_repositories(database: Database) -> None:
    """Replace the metrics of all repositories. Raises the errors of the database."""
    rows = await database.run(_repositories)
    _LOCKS.replace({(str(id_),): locks for id_, _, locks in rows})
    _REPOSITORIES.replace({(str(id_), name): 1 for id_, name, _ in rows})


async def _repositories(connection: AsyncConnection) -> Sequence[tuple[int, str, int]]:
    statement = (
        select(col(Repository.id), col(Repository.name), func.count(col(Lock.id)))
        .outerjoin(Lock, col(Lock.repository_id) == col(Repository.id))
        .group_by(col(Repository.id))
    )
    return [(id_, name, locks) for id_, name, locks in await connection.execute(statement)]
