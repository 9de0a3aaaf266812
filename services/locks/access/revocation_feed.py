"""The revocation feed: notifications of revocations as they are committed, whoever makes them (docs/decisions/0018)."""

from collections.abc import Mapping

from services.database.notifications import Notifications, Source
from services.locks.models import SCHEMA

SOURCE = Source(
    SCHEMA.name,
    # The channel that the triggers of the migrations 0003, 0008, 0010 and 0011 notify.
    channel="towpath_access_changed",
    trigger="access_changed",
    tables=(
        "users",
        "tokens",
        "repositories",
        "repository_aliases",
        "grants",
        "groups",
        "group_members",
        "group_grants",
        "forges",
        "issuers",
        "issuer_grants",
        "issuer_groups",
        "token_groups",
        "token_grants",
        "identities",
        "ssh_keys",
    ),
    subject="changes of access",
)


async def watch(notifications: Notifications, known: Mapping[str, int], wait_seconds: float) -> tuple[str, int]:
    """Return the id of the connection that listens to `SOURCE`, and the number of changes that it has received.

    If `known` has this id with this number, wait for a change, for at most `wait_seconds`. The number includes every
    change whose commit was acknowledged before the call. Raises `Unavailable` if no connection listens. See
    AccessService.WatchAccess.
    """
    listening = notifications.listening
    if known.get(listening.id) == listening.changes:
        await listening.wait(wait_seconds)
    await listening.sync()
    return listening.id, listening.changes
