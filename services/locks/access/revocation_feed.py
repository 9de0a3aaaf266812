"""What takes accesses away, heard of as it is committed, whoever does it (docs/decisions/0018)."""

from collections.abc import Mapping

from services.database.notifications import Notifications, Source
from services.locks.models import SCHEMA

SOURCE = Source(
    SCHEMA.name,
    # What the triggers of the migration 0003 notify.
    channel="towpath_access_changed",
    trigger="access_changed",
    tables=("users", "tokens", "repositories", "grants"),
    subject="changes of access",
)


async def watch(notifications: Notifications, known: Mapping[str, int], wait_seconds: float) -> tuple[str, int]:
    """Return who listens to `SOURCE` now, and how many changes that one has heard; see AccessService.WatchAccess.

    Where `known` has just that, wait for a change, at most for `wait_seconds`. What was acknowledged before the call is
    counted. Raises `Unavailable` where nobody listens.
    """
    listening = notifications.listening
    if known.get(listening.id) == listening.changes:
        await listening.wait(wait_seconds)
    await listening.sync()
    return listening.id, listening.changes
