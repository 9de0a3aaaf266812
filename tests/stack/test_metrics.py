"""Metrics of the services, as a scraper inside the stack reads them."""

import json

import pytest

from tests.stack.compose import SERVICES, ComposeStack

# Run in a container of the stack, since no other reaches the ports.
_SCRAPE = """
import json, sys, urllib.error, urllib.request
url, token = sys.argv[1:]
request = urllib.request.Request(url, headers={"Authorization": f"Bearer {token}"} if token else {})
try:
    with urllib.request.urlopen(request, timeout=10) as answer:
        print(json.dumps([answer.status, answer.read().decode()]))
except urllib.error.HTTPError as error:
    print(json.dumps([error.code, ""]))
"""


@pytest.mark.parametrize("service", SERVICES)
def test_metrics_need_their_token(service: str, single: ComposeStack) -> None:
    """Each service tells its metrics to who shows the token, and to nobody else."""
    token = single.secrets()["towpath_metrics_token"]
    assert _scrape(single, service, "")[0] == 401
    assert _scrape(single, service, single.secrets()["towpath_service_secret"])[0] == 401
    status, text = _scrape(single, service, token)
    assert status == 200
    assert "towpath_build_info{" in text
    assert "towpath_event_loop_lag_seconds_count" in text


def _scrape(stack: ComposeStack, service: str, token: str) -> tuple[int, str]:
    url = f"http://{service}:9100/metrics"
    status, text = json.loads(stack.compose("exec", "--no-TTY", "facade", "python", "-c", _SCRAPE, url, token))
    return status, text
