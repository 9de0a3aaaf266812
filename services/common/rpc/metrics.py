"""Prometheus metrics of a gRPC server's calls. The label `method` is a method that the server serves, or "other"."""

from functools import cache

from prometheus_client import Counter, Gauge, Histogram

from services.common.observability.metrics import SECONDS

REQUESTS = Counter("towpath_grpc_requests_total", "Calls that have ended.", ["method", "status"])
REQUEST_SECONDS = Histogram("towpath_grpc_request_seconds", "How long calls took.", ["method"], buckets=SECONDS)
# Cached, because finding a child by its labels takes longer than counting with it.
requests_of = cache(REQUESTS.labels)
request_seconds_of = cache(REQUEST_SECONDS.labels)
IN_FLIGHT = Gauge("towpath_grpc_in_flight", "Calls that are being served.")
