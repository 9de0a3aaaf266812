"""Bar charts as SVG."""

import math
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from xml.etree import ElementTree as ET

_WIDTH, _LABELS, _RIGHT, _TOP, _BAR, _GAP = 860, 250, 70, 76, 16, 12
_COLOURS = ("#1f6f8b", "#c8553d", "#8a7f2b", "#6b5b95", "#5c6b73", "#3f8f5f")
_FONT = "font-family: system-ui, sans-serif; font-size: 13px; fill: #222"


@dataclass(frozen=True)
class Bars:
    """The bars beside one label: a value for each series that has one."""

    label: str
    values: dict[str, float]


def chart(title: str, bars: Sequence[Bars], series: Sequence[str], *, unit: str) -> str:
    """Return an SVG of horizontal bars from 1 outwards, on a scale on which twice and half are equally far.

    `series` are all that there may be, so that each has the same colour in every chart.
    """
    values = [value for each in bars for value in each.values.values()]
    low = min(0.5, 2.0 ** math.floor(math.log2(min(values, default=1.0))))
    high = max(2.0, 2.0 ** math.ceil(math.log2(max(values, default=1.0))))
    height = _TOP + sum(len(each.values) * _BAR + _GAP for each in bars) + 12

    def across(value: float) -> float:
        return _LABELS + (_WIDTH - _LABELS - _RIGHT) * math.log(value / low) / math.log(high / low)

    root = ET.Element("svg", xmlns="http://www.w3.org/2000/svg", viewBox=f"0 0 {_WIDTH} {height}", style=_FONT)
    root.set("role", "img")
    ET.SubElement(root, "title").text = title
    _rectangle(root, 0, 0, _WIDTH, height, "#fff")
    _text(root, 12, 20, title, weight="bold")
    _legend(root, series, {name for each in bars for name in each.values})
    _grid(root, low, high, height, across, unit)
    y = float(_TOP)
    for each in bars:
        _text(root, _LABELS - 10, y + len(each.values) * _BAR / 2 + 5, each.label, anchor="end")
        for name in series:
            if name in each.values:
                value = each.values[name]
                left, right = sorted((across(1.0), across(value)))
                _rectangle(root, left, y + 1, max(1.0, right - left), _BAR - 3, _COLOURS[series.index(name)])
                _text(root, right + 5, y + _BAR - 4, f"{value:.{2 if value < 10 else 0}f}{unit}")
                y += _BAR
        y += _GAP
    ET.indent(root)
    return ET.tostring(root, encoding="unicode") + "\n"


def _legend(root: ET.Element, series: Sequence[str], there: Collection[str]) -> None:
    x = 12.0
    for number, name in enumerate(series):
        if name not in there:
            continue
        _rectangle(root, x, 32, 12, 12, _COLOURS[number])
        _text(root, x + 17, 43, name)
        x += 40 + 7.5 * len(name)


def _grid(
    root: ET.Element, low: float, high: float, height: float, across: Callable[[float], float], unit: str
) -> None:
    for power in range(round(math.log2(low)), round(math.log2(high)) + 1):
        x, colour = across(2.0**power), "#ddd" if power else "#444"
        # As a fraction, since 0.015625 is wider than its place.
        told = str(2**power) if power >= 0 else f"1/{2**-power}"
        line = {"x1": x, "x2": x, "y1": _TOP - 6, "y2": height - 6}
        _text(root, x, _TOP - 9, f"{told}{unit}", anchor="middle")
        ET.SubElement(root, "line", {name: f"{each:.1f}" for name, each in line.items()}, stroke=colour)


def _rectangle(root: ET.Element, x: float, y: float, width: float, height: float, colour: str) -> None:
    numbers = {"x": x, "y": y, "width": width, "height": height}
    ET.SubElement(root, "rect", {name: f"{each:.1f}" for name, each in numbers.items()}, fill=colour)


def _text(root: ET.Element, x: float, y: float, text: str, *, anchor: str = "start", weight: str = "normal") -> None:
    attributes = {"x": f"{x:.1f}", "y": f"{y:.1f}", "text-anchor": anchor, "font-weight": weight}
    ET.SubElement(root, "text", attributes).text = text
