"""What a gRPC server tells Prometheus of its calls. `method` is one of those that it serves, or "other"."""

from functools import cache

from prometheus_client import Counter, Gauge, Histogram

from services.common.observability.metrics import SECONDS

REQUESTS = Counter("towpath_grpc_requests_total", "Calls that have ended.", ["method", "status"])
REQUEST_SECONDS = Histogram("towpath_grpc_request_seconds", "How long calls took.", ["method"], buckets=SECONDS)
# To look a child up by its labels takes longer than to count with it.
requests_of = cache(REQUESTS.labels)
request_seconds_of = cache(REQUEST_SECONDS.labels)
IN_FLIGHT = Gauge("towpath_grpc_in_flight", "Calls that are being served.")
