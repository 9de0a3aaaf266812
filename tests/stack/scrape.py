"""A scraper inside the stack, since no other reaches the ports of metrics."""

import json

from tests.stack.compose import ComposeStack

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


def scrape(stack: ComposeStack, service: str, token: str) -> tuple[int, str]:
    """Return the status and the text that a service answers to who shows the token."""
    url = f"http://{service}:9100/metrics"
    status, text = json.loads(stack.compose("exec", "--no-TTY", "facade", "python", "-c", _SCRAPE, url, token))
    return status, text


def require_metrics(stack: ComposeStack, service: str) -> str:
    """Hold that a service tells its metrics to who shows the token, and to nobody else; return them."""
    token = stack.secrets()["towpath_metrics_token"]
    assert scrape(stack, service, "")[0] == 401
    assert scrape(stack, service, stack.secrets()["towpath_service_secret"])[0] == 401
    status, text = scrape(stack, service, token)
    assert status == 200
    assert "towpath_build_info{" in text
    assert "towpath_event_loop_lag_seconds_count" in text
    return text
