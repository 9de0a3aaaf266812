"""Prometheus metrics of the cache, beside those of serving HTTP, which are the facade's."""

from prometheus_client import Counter, Gauge

_DOWNLOADS = Counter("towpath_cache_downloads_total", "Downloads that have begun, by their source.", ["source"])
KEPT = _DOWNLOADS.labels("kept")
JOINED = _DOWNLOADS.labels("joined")
FETCHED = _DOWNLOADS.labels("fetched")
PASSED = _DOWNLOADS.labels("passed")

_BATCHES = Counter("towpath_cache_batches_total", "Batches that were answered, by who knew the rights.", ["source"])
BATCHES_BY_UPSTREAM = _BATCHES.labels("upstream")
BATCHES_FROM_MEMORY = _BATCHES.labels("memory")
BATCHES_WHILE_AWAY = _BATCHES.labels("away")

BYTES = Gauge("towpath_cache_bytes", "Bytes of the objects that are kept or on their way.")
MAX_BYTES = Gauge("towpath_cache_max_bytes", "The most bytes that objects may take.")
OBJECTS = Gauge("towpath_cache_objects", "Objects that are kept.")
EVICTIONS = Counter("towpath_cache_evictions_total", "Objects that have made room for others.")
FETCHES = Gauge("towpath_cache_fetches_in_flight", "Objects that are being fetched from the upstream.")
FETCHED_BYTES = Counter("towpath_cache_fetched_bytes_total", "Bytes of objects that the upstream has sent.")
DAMAGED = Counter("towpath_cache_damaged_total", "Objects that were dropped, by where the damage was.", ["place"])
UPSTREAM_ERRORS = Counter(
    "towpath_cache_upstream_errors_total", "Requests to the upstream that failed, by the failure.", ["failure"]
)
RIGHTS = Gauge("towpath_cache_rights", "Rights to read an object that are remembered.")
