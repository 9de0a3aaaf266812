"""Metrics of `towpath up`, which passes the operator's settings on."""

import re

import httpx

from tests.support.services import SERVICES
from tests.support.stack import running_stack
from tests.support.waiting import STEP_SECONDS


def test_up_serves_metrics_where_it_is_told() -> None:
    """On a free port, which the log tells; on loopback they need no token."""
    environment = {f"TOWPATH_{service.upper()}_METRICS_LISTEN": "127.0.0.1:0" for service in SERVICES}
    with running_stack("--demo", environment={**environment, "TOWPATH_LOG_FORMAT": "json"}) as stack:
        addresses = re.findall(r'"address":"(127\.0\.0\.1:[0-9]+)".*"event":"metrics"', stack.log())
        assert len(set(addresses)) == sum(len(stack.services(name)) for name in SERVICES), stack.log()
        assert len(stack.services("facade")) == 2
        told = [
            httpx.get(f"http://{address}/metrics", trust_env=False, timeout=STEP_SECONDS).text for address in addresses
        ]
    assert all("towpath_build_info" in text for text in told)
    assert sum("\ntowpath_locks_created_total 0.0\n" in text for text in told) == 1
