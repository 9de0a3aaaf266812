"""The types of audit events, all in one list.

Triggers of the migration 0009 record the changes of rows; `recorder.record` records what no trigger sees.
"""

from itertools import product

PREFIX = "org.towpath."

# The words that the triggers of the audited tables have as arguments.
RECORDS = (
    "forge",
    "grant",
    "group",
    "group.grant",
    "group.member",
    "hook",
    "issuer",
    "issuer.grant",
    "issuer.group",
    "key",
    "repository",
    "token",
    "user",
)
_CHANGES = ("created", "changed", "deleted")

OBJECT_REMOVED = f"{PREFIX}object.removed"
OBJECT_RESTORED = f"{PREFIX}object.restored"
OBJECT_PURGED = f"{PREFIX}object.purged"
OBJECT_COPIED = f"{PREFIX}object.copied"
OBJECT_IMPORTED = f"{PREFIX}object.imported"
OBJECT_EXPORTED = f"{PREFIX}object.exported"
REPOSITORY_REMOVED = f"{PREFIX}repository.removed"
REPOSITORY_RESTORED = f"{PREFIX}repository.restored"
REPOSITORY_PURGED = f"{PREFIX}repository.purged"
GARBAGE_COLLECTED = f"{PREFIX}garbage.collected"
LIMITS_CHANGED = f"{PREFIX}limits.changed"
QUOTA_WARNED = f"{PREFIX}quota.warned"
QUOTA_EXCEEDED = f"{PREFIX}quota.exceeded"
TOKEN_DELETED = f"{PREFIX}token.deleted"
HOOK_REDELIVERED = f"{PREFIX}hook.redelivered"
STORE_CREATED = f"{PREFIX}store.created"
STORE_DELETED = f"{PREFIX}store.deleted"
STORE_COPY_STARTED = f"{PREFIX}store.copy.started"
STORE_COPY_STOPPED = f"{PREFIX}store.copy.stopped"
STORE_PRIMARY_SET = f"{PREFIX}store.primary.set"

EVENT_TYPES = frozenset(
    {
        *(f"{PREFIX}{record}.{change}" for record, change in product(RECORDS, _CHANGES)),
        *(f"{PREFIX}lock.{change}" for change in ("created", "released", "forced", "stolen")),
        OBJECT_REMOVED,
        OBJECT_RESTORED,
        OBJECT_PURGED,
        OBJECT_COPIED,
        OBJECT_IMPORTED,
        OBJECT_EXPORTED,
        REPOSITORY_REMOVED,
        REPOSITORY_RESTORED,
        REPOSITORY_PURGED,
        GARBAGE_COLLECTED,
        LIMITS_CHANGED,
        QUOTA_WARNED,
        QUOTA_EXCEEDED,
        HOOK_REDELIVERED,
        STORE_CREATED,
        STORE_DELETED,
        STORE_COPY_STARTED,
        STORE_COPY_STOPPED,
        STORE_PRIMARY_SET,
    }
)
"""Every type that a row of the audit log may have."""
