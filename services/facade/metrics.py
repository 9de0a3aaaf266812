"""Prometheus metrics of the facade. `operation` is an operation id of /openapi.json, or "other"."""

from functools import cache

from prometheus_client import Counter, Gauge, Histogram

from services.common.observability.metrics import SECONDS

REQUESTS = Counter("towpath_http_requests_total", "Requests that have ended.", ["operation", "status"])
REQUEST_SECONDS = Histogram("towpath_http_request_seconds", "How long requests took.", ["operation"], buckets=SECONDS)
# Looking a child up by its labels takes longer than counting with it.
requests_of = cache(REQUESTS.labels)
request_seconds_of = cache(REQUEST_SECONDS.labels)
IN_FLIGHT = Gauge("towpath_http_requests_in_flight", "Requests that are being served, without watches.")
WATCHES = Gauge("towpath_lock_watches", "Clients that watch the events of locks.")

_BYTES = Counter("towpath_http_bytes_total", "Bytes of bodies.", ["direction"])
BYTES_IN = _BYTES.labels("in")
BYTES_OUT = _BYTES.labels("out")

ACCESS_ANSWERS = Counter(
    "towpath_access_answers_total", "Questions of who somebody is and what that one may do.", ["question", "source"]
)

RATE_REFUSALS = Counter(
    "towpath_http_rate_limited_total",
    "Requests that were refused as a user, a token or an address has used up the rate.",
    ["holder"],
)

_VERIFIED = Counter("towpath_verified_objects_total", "Uploads that clients have verified.", ["source"])
VERIFIED_FROM_MEMORY = _VERIFIED.labels("memory")
VERIFIED_BY_STORAGE = _VERIFIED.labels("storage")

REFUSALS_DROPPED = Counter(
    "towpath_http_refusals_dropped_total", "Refused requests that were too many to be reported for explanations."
)
