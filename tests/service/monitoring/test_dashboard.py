"""The dashboard and the alerts, on a real Prometheus that reads the real services."""

import asyncio
import json
from collections.abc import AsyncIterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest
import yaml
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.cog.plugins import register_default_plugins
from grafana_foundation_sdk.models.dashboard import Dashboard

from tests.support.dashboard_page import page
from tests.support.http import content, oid_of
from tests.support.prometheus import FOLDER, Prometheus, running_prometheus
from tests.support.services import METRICS_TOKEN, REPOSITORY, SERVICES, Services
from tests.support.waiting import until_answer

DASHBOARD: dict[str, Any] = json.loads((FOLDER / "grafana" / "dashboards" / "towpath.json").read_text())
PANELS: list[dict[str, Any]] = [panel for panel in DASHBOARD["panels"] if panel["type"] != "row"]
ALERTS: list[dict[str, Any]] = yaml.safe_load((FOLDER / "alerts.yml").read_text())["groups"][0]["rules"]


@pytest.fixture(scope="module")
async def prometheus(services: Services, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Prometheus]:
    """A Prometheus that reads the three services."""
    targets = {service: services.metrics_address(service) for service in SERVICES}
    async with running_prometheus(tmp_path_factory.mktemp("prometheus"), targets, METRICS_TOKEN) as prometheus:
        yield prometheus


def _expressions() -> set[str]:
    """Return what the panels ask, as Grafana does for the repository and the interval that are chosen."""
    return {
        target["expr"].replace("$repository", REPOSITORY).replace("$__rate_interval", "10s")
        for panel in PANELS
        for target in panel["targets"]
    }


async def _work(services: Services, number: int) -> None:
    """Do each thing that a series tells of."""
    data, other = content(f"panel {number}", 1_000), content(f"other {number}", 1_000)
    async with services.client("alice") as alice, services.client("bob") as bob:
        await alice.upload(data)
        action = await alice.offered("upload", other)
        await alice.put(action, data, len(data))
        await alice.download(oid_of(data), len(data))
        for path in (f"kept{number}.psd", f"own{number}.psd", f"forced{number}.psd"):
            lock = (await alice.lock(path)).json()["lock"]["id"]
            await bob.lock(path)
            if not path.startswith("kept"):
                client = alice if path.startswith("own") else bob
                assert (await client.unlock(lock, force=client is bob)).status_code == 200


@pytest.mark.drill
async def test_every_panel_has_data(services: Services, prometheus: Prometheus) -> None:
    """While people work, there is no series that does not come."""
    empty, numbers = _expressions(), count()
    assert len(empty) > 30

    async def without_data() -> set[str]:
        await _work(services, next(numbers))
        empty.intersection_update([expression for expression in empty if not await prometheus.query(expression)])
        return empty

    await until_answer(set(), without_data)


async def test_the_picture_of_the_dashboard_has_every_panel(prometheus: Prometheus) -> None:
    """The page for docs/pictures, drawn from a running Prometheus."""
    drawn = await asyncio.to_thread(page, prometheus.address, 2)
    assert all(f"<h3>{panel['title']}</h3>" in drawn for panel in PANELS)


async def test_every_alert_can_be_evaluated(prometheus: Prometheus) -> None:
    """Prometheus has them all, and none is wrong; services that run are not reported as down."""

    async def states() -> set[str]:
        return {rule["health"] for rule in await prometheus.rules()}

    await until_answer({"ok"}, states)
    assert {rule["name"] for rule in await prometheus.rules()} == {alert["alert"] for alert in ALERTS}

    async def raised() -> set[str]:
        running = {"TowpathServiceDown", "TowpathServiceAbsent", "TowpathPoolExhausted", "TowpathVersionsDiffer"}
        return running.intersection(rule["name"] for rule in await prometheus.rules() if rule["state"] != "inactive")

    # Until Prometheus has read the metrics once, no service is there.
    await until_answer(set(), raised)


def test_the_dashboard_has_the_form_that_grafana_knows() -> None:
    """Read into Grafana's own models and written again, nothing is lost: a field that they do not know is misspelt."""
    register_default_plugins()
    written = json.loads(JSONEncoder().encode(Dashboard.from_json(DASHBOARD)))
    assert _lost(DASHBOARD, written) == []


def _lost(given: Any, written: Any, path: str = "") -> list[str]:  # noqa: ANN401 - any JSON
    if isinstance(given, dict) and isinstance(written, dict):
        return [found for key, value in given.items() for found in _lost(value, written.get(key), f"{path}/{key}")]
    if isinstance(given, list) and isinstance(written, list) and len(given) == len(written):
        pairs = enumerate(zip(given, written, strict=True))
        return [found for number, pair in pairs for found in _lost(*pair, f"{path}/{number}")]
    return [] if given == written else [path]


def test_panels_lie_beside_each_other() -> None:
    """No two on the same place, none beyond the page; each says what it shows."""
    taken: set[tuple[int, int]] = set()
    for panel in DASHBOARD["panels"]:
        place = panel["gridPos"]
        cells = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert not cells & taken, panel["title"]
        assert max(x for x, _ in cells) < 24, panel["title"]
        taken |= cells
    assert all(panel["title"] and panel["description"] for panel in PANELS)
    assert len({panel["id"] for panel in DASHBOARD["panels"]}) == len(DASHBOARD["panels"])


def test_grafana_finds_what_it_is_given() -> None:
    """The panels ask the data source that is provisioned, whose address is the stack's Prometheus."""
    provisioning = FOLDER / "grafana" / "provisioning"
    (source,) = yaml.safe_load((provisioning / "datasources" / "prometheus.yml").read_text())["datasources"]
    variables = {variable["name"]: variable for variable in DASHBOARD["templating"]["list"]}
    assert source["uid"] == variables["datasource"]["current"]["value"]
    assert {target["datasource"]["uid"] for panel in PANELS for target in panel["targets"]} == {"${datasource}"}
    (provider,) = yaml.safe_load((provisioning / "dashboards" / "towpath.yml").read_text())["providers"]
    assert Path(provider["options"]["path"]).is_absolute()
