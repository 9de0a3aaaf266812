"""Outages longer than a client waits: they are reported at once, and end without an operator."""

import ssl
import time

import httpx
import pytest

from tests.stack.compose import ComposeStack
from tests.stack.work import CREW, REPOSITORY
from tests.support.certificates import CertificateFiles
from tests.support.http import MEDIA_TYPE, basic
from tests.support.waiting import blocking_until

# The longest that an answer may take; the connection itself is not waited for.
ANSWER_SECONDS = 15

# For so long a facade may still answer by what it remembers of whom the lock service let do what.
REMEMBERED_SECONDS = 1


@pytest.mark.parametrize("service", ["storage", "locks", "postgres", "facade"])
def test_long_outage(
    service: str, single: ComposeStack, origin: str, tokens: dict[str, str], certificates: CertificateFiles
) -> None:
    """While a service is gone a batch is answered 503 or 429 with Retry-After; when it is back, 200."""
    single.compose("stop", service)
    time.sleep(REMEMBERED_SECONDS)
    try:
        told = _batch(origin, tokens, certificates)
        assert told.status_code in (429, 503)
        assert int(told.headers["Retry-After"]) > 0
        assert told.json()["message"]
        assert "objects" not in told.json()
    finally:
        single.compose("start", service)
    blocking_until(lambda: _batch(origin, tokens, certificates).status_code == 200, f"{service} is back", seconds=60)


def _batch(origin: str, tokens: dict[str, str], certificates: CertificateFiles) -> httpx.Response:
    name = CREW[0]
    return httpx.post(
        f"{origin}/{REPOSITORY}/objects/batch",
        json={"operation": "upload", "objects": [{"oid": "0" * 64, "size": 1}]},
        headers={"Authorization": basic(name, tokens[name]), "Accept": MEDIA_TYPE, "Content-Type": MEDIA_TYPE},
        verify=ssl.create_default_context(cafile=certificates.authority),
        timeout=ANSWER_SECONDS,
        trust_env=False,
    )
