"""Reports of damaged blobs."""

from collections.abc import Collection
from functools import partial

from services.common.observability.logs import get_logger
from services.storage.context import StorageContext
from services.storage.index import contents
from services.storage.index.contents import BlobLocation
from services.storage.metrics import OBJECTS_DOUBTED

_log = get_logger(__name__)


async def report_damage(
    context: StorageContext, found: Collection[BlobLocation], *, if_elsewhere: bool = False
) -> None:
    """Mark blobs as damaged, so that they are replaced from another store or by a client.

    With `if_elsewhere`, a blob is marked only if another store has an undamaged one.
    """
    if not found:
        return
    if count := await context.database.run(partial(contents.mark_damaged, found=found, if_elsewhere=if_elsewhere)):
        OBJECTS_DOUBTED.inc(count)
        _log.error("bytes are missing or damaged in a store", found=[name for _, name in found])
        context.copy_wanted.set()
