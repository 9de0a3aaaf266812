"""The Prometheus metrics of the storage service, apart from those of its calls."""

from collections.abc import Callable, Collection, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext

from prometheus_client import Counter

from services.common.errors import Reason, ServiceError
from services.common.observability.metrics import Snapshot

OBJECTS_MISSING = Counter(
    "towpath_objects_missing_total", "Objects asked for whose bytes are not there although the index has them."
)
OBJECTS_DOUBTED = Counter("towpath_objects_doubted_total", "Bytes found missing or damaged in a store.")
_COPIED_OBJECTS = Counter("towpath_store_copied_objects_total", "Objects brought from one store to another.", ["store"])
_COPIED_BYTES = Counter("towpath_store_copied_bytes_total", "Their bytes.", ["store"])
_SCRUBBED_BYTES = Counter(
    "towpath_store_scrubbed_bytes_total", "Bytes of a store that the scrubber has read.", ["store"]
)
STORE_OLDEST_CHECK = Snapshot(
    "towpath_store_oldest_check_timestamp_seconds", "When all bytes of a store had been read back at last.", ["store"]
)
AVAILABLE_BYTES = Snapshot("towpath_storage_available_bytes", "Bytes that uploads may still fill.", [])
REPOSITORY_OBJECTS = Snapshot("towpath_repository_objects", "Objects that a repository holds.", ["repository_id"])
REPOSITORY_BYTES = Snapshot("towpath_repository_bytes", "Bytes that a repository holds.", ["repository_id"])
REPOSITORY_QUOTA = Snapshot(
    "towpath_repository_quota_bytes", "Bytes that a repository with a quota may hold.", ["repository_id"]
)
REPOSITORY_RESERVED = Snapshot(
    "towpath_repository_reserved_bytes",
    "Bytes of its quota that a repository keeps for announced and running uploads.",
    ["repository_id"],
)
REPOSITORY_BANDWIDTH = Snapshot(
    "towpath_repository_bandwidth_bytes", "Bytes that a repository with such a limit may move a day.", ["repository_id"]
)
REPOSITORY_MOVED = Snapshot(
    "towpath_repository_moved_bytes", "Bytes that a repository with such a limit has moved today.", ["repository_id"]
)
REPOSITORY_BIN_BYTES = Snapshot(
    "towpath_repository_bin_bytes", "Bytes of removed objects that a repository keeps in its bin.", ["repository_id"]
)

_OBJECT_BYTES = Counter("towpath_object_bytes_total", "Bytes of objects written and read.", ["direction"])
BYTES_IN = _OBJECT_BYTES.labels("in")
BYTES_OUT = _OBJECT_BYTES.labels("out")

_UPLOADS = Counter("towpath_uploads_total", "Uploads that were decided.", ["result"])
UPLOADS_STORED = _UPLOADS.labels("stored")
_UPLOADS_REJECTED = _UPLOADS.labels("rejected")
_REJECTED = Counter("towpath_uploads_rejected_total", "Uploads that were refused or failed, and why.", ["reason"])
# The series that alerts watch exist from the start, because Prometheus sees no increase when a series first appears.
for _reason in (Reason.HASH_MISMATCH, Reason.SIZE_MISMATCH, Reason.STORAGE_FULL, Reason.QUOTA_EXCEEDED):
    _REJECTED.labels(_reason)

ASSEMBLED_UPLOADS = Counter("towpath_uploads_assembled_total", "Uploads whose object was written from parts.")
PARTIAL_UPLOADS_GIVEN_UP = Counter(
    "towpath_partial_uploads_given_up_total",
    "Partial uploads that were given up, because they expired or their object came in another way.",
)

_COLLECTIONS = Counter("towpath_garbage_collections_total", "Collections that were to remove garbage.", ["result"])
_COLLECTIONS_COMPLETED = _COLLECTIONS.labels("completed")
_COLLECTIONS_REFUSED = _COLLECTIONS.labels("refused")
_REFUSED_COLLECTIONS = Counter(
    "towpath_garbage_collections_refused_total", "Those that were refused or failed, and why.", ["reason"]
)
for _reason in (Reason.TOO_MUCH_GARBAGE, Reason.COLLECTION_RUNNING):
    _REFUSED_COLLECTIONS.labels(_reason)
_COLLECTED_OBJECTS = Counter("towpath_garbage_removed_objects_total", "Objects that collections have removed.")
_COLLECTED_BYTES = Counter("towpath_garbage_removed_bytes_total", "Their bytes.")


def count_rejected(reason: str) -> None:
    """Count an upload that was refused or failed; `reason` is one of `Reason`."""
    _UPLOADS_REJECTED.inc()
    _REJECTED.labels(reason).inc()


def decided() -> AbstractContextManager[None]:
    """Count an upload as stored or rejected, by the outcome of the block; as neither if the sender cancels it."""
    return _counted(UPLOADS_STORED, count_rejected)


def collection_decided(*, apply: bool) -> AbstractContextManager[None]:
    """Count a collection of garbage as completed or refused, by the outcome of the block; without `apply`, as neither.

    One that the caller cancels is neither as well.
    """
    return _counted(_COLLECTIONS_COMPLETED, _count_refused_collection) if apply else nullcontext()


@contextmanager
def _counted(done: Counter, count_failed: Callable[[str], None]) -> Iterator[None]:
    try:
        yield
    except ServiceError as error:
        count_failed(error.reason)
        raise
    except Exception:
        count_failed(Reason.INTERNAL)
        raise
    done.inc()


def _count_refused_collection(reason: str) -> None:
    _COLLECTIONS_REFUSED.inc()
    _REFUSED_COLLECTIONS.labels(reason).inc()


def count_collected(sizes: Collection[int]) -> None:
    """Count objects that a collection has removed, by their sizes."""
    _COLLECTED_OBJECTS.inc(len(sizes))
    _COLLECTED_BYTES.inc(sum(sizes))


def count_scrubbed(store: str, size: int) -> None:
    """Count bytes that the scrubber has read."""
    _SCRUBBED_BYTES.labels(store).inc(size)


def count_copied(store: str, size: int) -> None:
    """Count an object that was copied to a store."""
    _COPIED_OBJECTS.labels(store).inc()
    _COPIED_BYTES.labels(store).inc(size)
