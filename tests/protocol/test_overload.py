"""Too many requests at once (protocol: Status codes of batch responses, 429; Limits, rate limits)."""

from concurrent.futures import ThreadPoolExecutor

import httpx

from services.conformance.blobs import Blob
from tests.protocol.client import Client
from tests.protocol.inner import running_facade
from tests.support.waiting import STEP_SECONDS


def test_more_requests_than_can_be_served_are_429_with_retry_after(http: httpx.Client) -> None:
    """A 429 without Retry-After kills old clients, and a batch that got a 503 is not repeated (client-7, client-18)."""
    blob = Blob(b"x")
    with running_facade(TOWPATH_REQUESTS_IN_FLIGHT="1") as (origin, inner), ThreadPoolExecutor(1) as pool:
        zoe = Client(http, f"{origin}/a", "Bearer x")
        actions = zoe.entry("upload", blob)["actions"]
        inner.held = "BatchStatObjects"
        waiting = pool.submit(zoe.batch, "download", blob.entry)
        assert inner.reached.wait(STEP_SECONDS)
        refused = [
            zoe.batch("download", blob.entry),
            zoe.locks(),
            zoe.put(actions["upload"], blob.content),
            zoe.get(actions["upload"]),
        ]
        assert [answer.status_code for answer in refused] == [429] * 4
        for path in ("healthz", "readyz"):
            for method in ("GET", "HEAD"):
                watched = http.request(method, f"{origin}/{path}").status_code
                assert watched != 429, "what watches over it must be answered above all"
        inner.release.set()
        assert waiting.result(30).status_code == 200
        assert zoe.locks().status_code == 200
