"""The Grafana dashboard drawn as one static page from a running Prometheus, for a picture where no Grafana is.

`python -m tests.support.dashboard_page http://127.0.0.1:9090 page.html [MINUTES]`
"""

import html
import json
import sys
import time
from pathlib import Path
from typing import Any

import httpx

from tests.support.prometheus import FOLDER
from tests.support.waiting import STEP_SECONDS

_COLUMN, _ROW = 60, 34
_COLORS = ("#73bf69", "#5794f2", "#f2cc0c", "#ff780a", "#b877d9", "#f2495c", "#37872d", "#8ab8ff")
_STYLE = """
body { background: #111217; color: #ccccdc; font: 12px sans-serif; margin: 0; position: relative }
div { position: absolute; box-sizing: border-box; overflow: hidden }
.panel { background: #181b1f; border: 1px solid #2c3235; padding: 4px 8px }
.big { font-size: 30px; color: #73bf69; text-align: center; width: 100%; top: 50px; left: 0 }
.legend { bottom: 4px; left: 8px; right: 8px; max-height: 58px; font-size: 10px }
h2 { font-size: 14px; margin: 8px } h3 { font-size: 12px; margin: 0 }
"""
_UNITS = {"bytes": "B", "Bps": "B/s", "s": "s", "reqps": "/s", "ops": "/s", "none": "", "percentunit": ""}


def _text(value: float, unit: str) -> str:
    for factor, prefix in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"), (1, ""), (1e-3, "m")):
        if abs(value) >= factor:
            return f"{value / factor:.3g} {prefix}{_UNITS[unit]}"
    return f"{value:.3g} {_UNITS[unit]}"


def _curves(http: httpx.Client, panel: dict[str, Any], minutes: float) -> list[tuple[str, list[tuple[float, float]]]]:
    end = time.time()
    curves = []
    for target in panel["targets"]:
        expression = target["expr"].replace("$repository", ".*").replace("$__rate_interval", "30s")
        window = {"start": end - minutes * 60, "end": end, "step": max(1.0, minutes * 60 / 200)}
        answer = http.get("/api/v1/query_range", params={"query": expression, **window}).raise_for_status().json()
        for series in answer["data"]["result"]:
            name = target["legendFormat"]
            for label, value in series["metric"].items():
                name = name.replace("{{" + label + "}}", value)
            points = [(float(at), float(value)) for at, value in series["values"] if value != "NaN"]
            curves.append((name, points))
    return [curve for curve in curves if curve[1]]


def _graph(curves: list[tuple[str, list[tuple[float, float]]]], width: int, height: int, unit: str) -> str:
    times = [at for _, points in curves for at, _ in points]
    first, last = min(times), max(times)
    top = max((value for _, points in curves for _, value in points), default=0) or 1
    left, plot = 60, height - 100
    lines = []
    for number in range(4):
        y = 24 + plot * number / 3
        lines.append(f'<line x1="{left}" x2="{width - 12}" y1="{y}" y2="{y}" stroke="#2c3235"/>')
        lines.append(
            f'<text x="2" y="{y + 4}" fill="#8e8e9c" font-size="10">{_text(top * (1 - number / 3), unit)}</text>'
        )
    for number, (_, points) in enumerate(curves):
        path = " ".join(
            f"{left + (width - left - 12) * (at - first) / (last - first or 1):.1f},{24 + plot * (1 - value / top):.1f}"
            for at, value in points
        )
        lines.append(f'<polyline points="{path}" fill="none" stroke="{_COLORS[number % len(_COLORS)]}"/>')
    names = " ".join(
        f'<span style="color:{_COLORS[number % len(_COLORS)]}">&#9644;</span> '
        f"{html.escape(name)}: {_text(points[-1][1], unit)}"
        for number, (name, points) in enumerate(curves)
    )
    return f'<svg width="{width}" height="{height}">{"".join(lines)}</svg><div class="legend">{names}</div>'


def page(prometheus: str, minutes: float) -> str:
    """Return the page: the panels where the dashboard has them, with what Prometheus has of the last minutes."""
    dashboard = json.loads((FOLDER / "grafana" / "dashboards" / "towpath.json").read_text())
    drawn = []
    with httpx.Client(base_url=prometheus, trust_env=False, timeout=STEP_SECONDS) as http:
        for panel in dashboard["panels"]:
            place, unit = panel["gridPos"], panel.get("fieldConfig", {}).get("defaults", {}).get("unit", "none")
            width, height = place["w"] * _COLUMN - 8, place["h"] * _ROW - 8
            at = f"left:{place['x'] * _COLUMN + 4}px;top:{place['y'] * _ROW + 4}px;width:{width}px;height:{height}px"
            if panel["type"] == "row":
                drawn.append(f'<div style="{at}"><h2>{html.escape(panel["title"])}</h2></div>')
                continue
            curves = _curves(http, panel, minutes)
            if panel["type"] == "stat":
                body = f'<div class="big">{_text(curves[0][1][-1][1], unit) if curves else "no data"}</div>'
            else:
                body = _graph(curves, width, height, unit) if curves else "no data"
            drawn.append(f'<div class="panel" style="{at}"><h3>{html.escape(panel["title"])}</h3>{body}</div>')
    return f'<!doctype html><meta charset="utf-8"><style>{_STYLE}</style>{"".join(drawn)}'


if __name__ == "__main__":
    Path(sys.argv[2]).write_text(page(sys.argv[1], float(sys.argv[3]) if len(sys.argv) > 3 else 10))
