"""Announcements of uploads: a client does not upload what is held, so that a collection must not remove it then.

The last use of a held object is recorded before the answer. A collection that removes the object at the same time comes
first or second on its row: if it comes first, the announcement finds the object gone; if second, it finds it used.
"""

from services.storage.context import StorageContext
from services.storage.index.lookups import Located
from services.storage.index.uses import ANNOUNCED_SECONDS, record_announced, revive

# Each round is lost only to a change of the same objects at that moment.
_MAX_ROUNDS = 3


async def announced(context: StorageContext, repository_id: int, located: list[Located]) -> list[Located]:
    """Return the objects that need no upload, or must not be uploaded, out of those that were just looked up.

    What was removed as garbage and is in the bin is held again. An object that is neither held nor removed is left out.
    """
    settled: list[Located] = []
    for _ in range(_MAX_ROUNDS):
        collected = [entry for entry in located if entry.is_collected]
        unrecorded = [entry for entry in located if _is_unrecorded(entry)]
        settled += [entry for entry in located if not entry.is_collected and not _is_unrecorded(entry)]
        recorded, revived = set[str](), set[str]()
        if unrecorded:
            recorded = await record_announced(context.database, repository_id, [entry.oid for entry in unrecorded])
        if collected:
            revived = await revive(context.database, repository_id, [entry.oid for entry in collected])
        settled += [entry for entry in unrecorded if entry.oid in recorded]
        settled += [entry._replace(is_removed=False, is_collected=False) for entry in collected if entry.oid in revived]
        unsettled = [entry.oid for entry in (*unrecorded, *collected) if entry.oid not in recorded | revived]
        if not unsettled:
            break
        # Of what cannot be revived nothing more is to be known; the rest may have been recorded by others, or be gone.
        located = await context.lookups.locate(repository_id, unsettled)
    return settled


def _is_unrecorded(entry: Located) -> bool:
    return not entry.is_removed and entry.unused_seconds >= ANNOUNCED_SECONDS
