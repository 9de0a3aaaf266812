"""Each alert, tried by promtool on series that must raise it, and on series that must not."""

import asyncio
import re
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from tests.support.programs import needed
from tests.support.prometheus import FOLDER

ALERTS: list[dict[str, Any]] = yaml.safe_load((FOLDER / "alerts.yml").read_text())["groups"][0]["rules"]
RUNBOOK = FOLDER.parent / "docs" / "monitoring.md"
DAY_SECONDS = 24 * 3600
GIBIBYTE = 1024**3


@dataclass(frozen=True)
class Case:
    """Series as promtool writes them, a value a minute; how many alerts fire after `minutes`; `quiet` raise none."""

    firing: dict[str, str]
    quiet: dict[str, str]
    minutes: int = 20
    alerts: int = 1


def _histogram(name: str, label: str, fast: str, slow: str) -> dict[str, str]:
    bounds = {"0.25": fast, "1": fast, "2.5": slow, "+Inf": slow}
    return {f'{name}_bucket{{{label},le="{bound}"}}': values for bound, values in bounds.items()}


def _all(values: str) -> dict[str, str]:
    return {f'up{{job="{job}",instance="{job}:9100"}}': values for job in ("facade", "storage", "locks")}


_HOOKS = "towpath_webhook_deliveries_total"
_HTTP = "towpath_http_requests_total"
_DAMAGED, _UPSTREAM = "towpath_cache_damaged_total", "towpath_cache_upstream_errors_total"
_REJECTED = "towpath_uploads_rejected_total"
_LAG, _LATENCY = "towpath_event_loop_lag_seconds", "towpath_http_request_seconds"
_AVAILABLE = 'towpath_storage_available_bytes{instance="a"}'
_CHECKED = 'towpath_store_oldest_check_timestamp_seconds{{store="first",instance="{}"}}'
_POOL = 'towpath_database_pool_size{job="locks",instance="a"}'
_IN_USE = 'towpath_database_connections{state="in_use",job="locks",instance="a"}'
_IDLE = 'towpath_database_connections{state="idle",job="locks",instance="a"}'

CASES = {
    "TowpathServiceDown": Case({**_all("1x30"), 'up{job="storage",instance="b:9100"}': "1x5 0x30"}, _all("1x30")),
    "TowpathServiceAbsent": Case({'up{job="facade"}': "1x30", 'up{job="locks"}': "1x30"}, _all("0x30")),
    "TowpathObjectsMissing": Case(
        {
            'towpath_objects_missing_total{instance="a"}': "0x10 1x30",
            'towpath_objects_missing_total{instance="b"}': "0x40",
        },
        {'towpath_objects_missing_total{instance="a"}': "7x40"},
    ),
    "TowpathBytesDamaged": Case(
        {'towpath_objects_doubted_total{instance="a"}': "0x10 1x30"},
        {'towpath_objects_doubted_total{instance="a"}': "7x40"},
    ),
    "TowpathScrubLate": Case(
        # 46 days before the tests' time 0, and 44 days beside an older moment that another process knew.
        {_CHECKED.format("a"): f"{-46 * DAY_SECONDS}x90"},
        {_CHECKED.format("a"): f"{-44 * DAY_SECONDS}x90", _CHECKED.format("b"): f"{-60 * DAY_SECONDS}x90"},
        minutes=90,
    ),
    "TowpathStorageNearlyFull": Case(
        {_AVAILABLE: f"{9 * GIBIBYTE}x30"},
        {_AVAILABLE: f"{11 * GIBIBYTE}x30", 'towpath_storage_available_bytes{instance="b"}': f"{GIBIBYTE}x1 _x30"},
    ),
    "TowpathStorageFillsUp": Case(
        {_AVAILABLE: f"{1000 * GIBIBYTE}-{GIBIBYTE}x400"}, {_AVAILABLE: f"{1000 * GIBIBYTE}-{100}x400"}, minutes=400
    ),
    "TowpathUploadsRefusedForRoom": Case(
        {f'{_REJECTED}{{reason="STORAGE_FULL"}}': "0x10 1x30"},
        {f'{_REJECTED}{{reason="STORAGE_FULL"}}': "1x40", f'{_REJECTED}{{reason="HASH_MISMATCH"}}': "0+1x40"},
    ),
    "TowpathQuotaNearlyUsed": Case(
        {
            'towpath_repository_bytes{repository_id="7",instance="a"}': "80x30",
            'towpath_repository_quota_bytes{repository_id="7",instance="a"}': "100x30",
            'towpath_repository_quota_bytes{repository_id="7",instance="b"}': "100x30",
        },
        {
            'towpath_repository_bytes{repository_id="7",instance="a"}': "79x30",
            'towpath_repository_quota_bytes{repository_id="7",instance="a"}': "100x30",
            'towpath_repository_bytes{repository_id="8",instance="a"}': "1000x30",
        },
    ),
    "TowpathUploadsOverQuota": Case(
        {f'{_REJECTED}{{reason="QUOTA_EXCEEDED"}}': "0x10 1x30"},
        {f'{_REJECTED}{{reason="QUOTA_EXCEEDED"}}': "1x40", f'{_REJECTED}{{reason="HASH_MISMATCH"}}': "0+1x40"},
    ),
    "TowpathBandwidthUsedUp": Case(
        {
            'towpath_repository_moved_bytes{repository_id="7",instance="a"}': "100x30",
            'towpath_repository_bandwidth_bytes{repository_id="7",instance="b"}': "100x30",
        },
        {
            'towpath_repository_moved_bytes{repository_id="7",instance="a"}': "99x30",
            'towpath_repository_bandwidth_bytes{repository_id="7",instance="a"}': "100x30",
        },
    ),
    "TowpathUploadsCorrupt": Case(
        {f'{_REJECTED}{{reason="HASH_MISMATCH"}}': "0x10 3x30", f'{_REJECTED}{{reason="SIZE_MISMATCH"}}': "0x10 2x30"},
        {f'{_REJECTED}{{reason="HASH_MISMATCH"}}': "0x10 2x30", f'{_REJECTED}{{reason="STORAGE_FULL"}}': "0+9x40"},
    ),
    "TowpathCollectionRefused": Case(
        {'towpath_garbage_collections_refused_total{reason="TOO_MUCH_GARBAGE"}': "0x10 1x30"},
        {
            'towpath_garbage_collections_refused_total{reason="TOO_MUCH_GARBAGE"}': "1x40",
            'towpath_garbage_collections_total{result="completed"}': "0+1x40",
        },
    ),
    "TowpathCacheDamaged": Case(
        {
            f'{_DAMAGED}{{place="kept",instance="a"}}': "0x10 1x30",
            f'{_DAMAGED}{{place="upstream",instance="a"}}': "0x10 1x30",
            f'{_DAMAGED}{{place="kept",instance="b"}}': "0x40",
        },
        {f'{_DAMAGED}{{place="kept",instance="a"}}': "7x40"},
        alerts=2,
    ),
    "TowpathUpstreamAway": Case(
        {f'{_UPSTREAM}{{failure="away",instance="a"}}': "0+1x30"},
        {
            f'{_UPSTREAM}{{failure="away",instance="a"}}': "0x5 1x30",
            f'{_UPSTREAM}{{failure="refused",instance="a"}}': "0+1x40",
        },
    ),
    "TowpathErrors": Case(
        {
            f'{_HTTP}{{operation="batch",status="200"}}': "0+90x30",
            f'{_HTTP}{{operation="batch",status="503"}}': "0+10x30",
        },
        {
            f'{_HTTP}{{operation="batch",status="200"}}': "0+90x30",
            f'{_HTTP}{{operation="batch",status="500"}}': "0+2x30",
            f'{_HTTP}{{operation="batch",status="404"}}': "0+90x30",
            f'{_HTTP}{{operation="readyz",status="503"}}': "0+90x30",
        },
    ),
    "TowpathTurnedAway": Case(
        {f'{_HTTP}{{operation="other",status="429"}}': "0+90x30"},
        {
            f'{_HTTP}{{operation="other",status="429"}}': "0+30x30",
            f'{_HTTP}{{operation="batch",status="401"}}': "0+90x30",
        },
    ),
    "TowpathSlow": Case(
        _histogram(_LATENCY, 'operation="create_lock"', "0+80x30", "0+100x30"),
        {
            **_histogram(_LATENCY, 'operation="create_lock"', "0+99x30", "0+100x30"),
            **_histogram(_LATENCY, 'operation="upload"', "0x30", "0+100x30"),
        },
    ),
    "TowpathCallsFail": Case(
        {'towpath_grpc_requests_total{job="locks",method="/s/M",status="INTERNAL"}': "0+1x30"},
        {
            'towpath_grpc_requests_total{job="locks",method="/s/M",status="INTERNAL"}': "3x30",
            'towpath_grpc_requests_total{job="locks",method="/s/M",status="ALREADY_EXISTS"}': "0+1x30",
        },
    ),
    "TowpathEventLoopBlocked": Case(
        _histogram(_LAG, 'job="facade",instance="a"', "0+118x30", "0+120x30"),
        _histogram(_LAG, 'job="facade",instance="a"', "0+120x30", "0+120x30"),
    ),
    "TowpathPoolExhausted": Case(
        {_IN_USE: "10x30", _IDLE: "0x30", _POOL: "10x30"}, {_IN_USE: "9x30", _IDLE: "1x30", _POOL: "10x30"}
    ),
    "TowpathDatabaseRetries": Case(
        {'towpath_database_retries_total{job="locks"}': "0+10x30"},
        {'towpath_database_retries_total{job="locks"}': "0+1x30"},
    ),
    "TowpathWebhookGivenUp": Case(
        {f'{_HOOKS}{{result="given_up"}}': "0x10 1x30", f'{_HOOKS}{{result="gone"}}': "0x10 1x30"},
        {f'{_HOOKS}{{result="given_up"}}': "1x40", f'{_HOOKS}{{result="failed"}}': "0+9x40"},
    ),
    "TowpathVersionsDiffer": Case(
        {'towpath_build_info{version="1"}': "1x60", 'towpath_build_info{version="2"}': "1x60"},
        {'towpath_build_info{version="1"}': "1x60", 'towpath_build_info{version="2",instance="b"}': "1x10 _x60"},
        minutes=45,
    ),
}


def _test(name: str, series: dict[str, str], case: Case, expected: int) -> dict[str, Any]:
    samples = [{"labels": "{}", "value": expected}] if expected else []
    return {
        "interval": "1m",
        "input_series": [{"series": labels, "values": values} for labels, values in series.items()],
        "promql_expr_test": [
            {
                "expr": f'count(ALERTS{{alertname="{name}",alertstate="firing"}})',
                "eval_time": f"{case.minutes}m",
                "exp_samples": samples,
            }
        ],
    }


async def _promtool(*arguments: str) -> None:
    result = await asyncio.to_thread(
        subprocess.run, [needed("promtool"), *arguments], capture_output=True, text=True, check=False
    )
    assert result.returncode == 0, result.stdout + result.stderr


def test_every_alert_has_its_case() -> None:
    """Every alert has its case and every case its alert, so that no alert goes untested."""
    assert set(CASES) == {alert["alert"] for alert in ALERTS}


async def test_alerts_are_raised_when_they_should_be(tmp_path: Path) -> None:
    """An alert fires, once, on what it is for, and not on what only looks like it; promtool names those that do not."""
    tests = [
        _test(name, series, case, expected)
        for name, case in CASES.items()
        for series, expected in ((case.firing, case.alerts), (case.quiet, 0))
    ]
    path = tmp_path / "test.yml"
    path.write_text(yaml.safe_dump({"rule_files": [str(FOLDER / "alerts.yml")], "tests": tests}))
    await _promtool("test", "rules", str(path))


async def test_promtool_accepts_the_rules_and_the_configuration(tmp_path: Path) -> None:
    """Both files as they are in the repository; the token's file alone lies elsewhere."""
    await _promtool("check", "rules", str(FOLDER / "alerts.yml"))
    token, rules = tmp_path / "token", tmp_path / "alerts.yml"
    token.write_text("a token")
    rules.write_text((FOLDER / "alerts.yml").read_text())
    written = (FOLDER / "prometheus.yml").read_text()
    assert "/run/secrets/towpath_metrics_token" in written
    path = tmp_path / "prometheus.yml"
    path.write_text(written.replace("/run/secrets/towpath_metrics_token", str(token)))
    await _promtool("check", "config", str(path))


def test_alerts_say_what_they_are_and_where_to_read_on() -> None:
    """Each alert has a summary, a severity, and a section of docs/monitoring.md."""
    sections = set(re.findall(r"^#+ (\w+)$", RUNBOOK.read_text(), re.MULTILINE))
    incomplete = [
        alert["alert"]
        for alert in ALERTS
        if not alert["annotations"]["summary"]
        or alert["labels"]["severity"] not in ("critical", "warning")
        or alert["annotations"]["runbook"] != f"docs/monitoring.md#{alert['alert'].lower()}"
        or alert["alert"] not in sections
    ]
    assert incomplete == []
