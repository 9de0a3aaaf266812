"""Charts as SVG: one area over the days, its axes, and its title and description for those who do not see it."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from markupsafe import Markup

_WIDTH, _HEIGHT = 560, 220
_LEFT, _RIGHT, _TOP, _BOTTOM = 84, 12, 16, 36
_INNER_WIDTH, _INNER_HEIGHT = _WIDTH - _LEFT - _RIGHT, _HEIGHT - _TOP - _BOTTOM
_BASE = _TOP + _INNER_HEIGHT
_MAX_STEPS = 4
_NEXT_STEP = {1: 2, 2: 5, 5: 10}


class Point(NamedTuple):
    """One place of a series: the day, such as `2026-03-01`, and the value at its end, which is not negative."""

    day: str
    value: int


def area_chart(name: str, title: str, points: Sequence[Point], text: Callable[[int], str]) -> Markup:
    """Return the SVG of a series, from zero to a round number; `text` writes a value, as in `4 GB`.

    `name` is the beginning of the ids in it, unique in a page. A series without points has no chart.
    """
    if not points:
        return Markup("")
    step = tick_step(max(point.value for point in points))
    top = -(-max(point.value for point in points) // step) * step or step
    places = [(_x(number, len(points)), _y(point.value, top)) for number, point in enumerate(points)]
    if len(places) == 1:
        places.append((_LEFT + _INNER_WIDTH, places[0][1]))
    line = "L".join(f"{x:.1f},{y:.1f}" for x, y in places)
    return Markup(
        '<svg class="chart" viewBox="0 0 {width} {height}" role="img" aria-labelledby="{name}-title {name}-desc">\n'
        '<title id="{name}-title">{title}</title>\n<desc id="{name}-desc">{description}</desc>\n'
        '{grid}\n<path class="area" d="M{line}L{right:.1f},{base}L{left},{base}Z"/>\n<path class="line" d="M{line}"/>\n'
        "{days}\n</svg>"
    ).format(
        width=_WIDTH,
        height=_HEIGHT,
        name=name,
        title=title,
        description=description(points, text),
        grid=_grid(range(0, top + 1, step), top, text),
        line=line,
        left=_LEFT,
        right=places[-1][0],
        base=_BASE,
        days=_days(points),
    )


def description(points: Sequence[Point], text: Callable[[int], str]) -> str:
    """Return a series in one sentence: its first, its last and its largest value."""
    first, last, most = points[0], points[-1], max(points, key=lambda point: point.value)
    return (
        f"From {text(first.value)} on {first.day} to {text(last.value)} on {last.day}; "
        f"the most is {text(most.value)} on {most.day}."
    )


def tick_step(most: int) -> int:
    """Return the distance of the ticks of an axis from 0 to `most`: 1, 2 or 5 times a power of ten, 4 ticks at most."""
    step, power = 1, 1
    while step * power * _MAX_STEPS < most:
        step = _NEXT_STEP[step]
        if step == 10:
            step, power = 1, power * 10
    return step * power


def _x(number: int, count: int) -> float:
    return _LEFT + (_INNER_WIDTH * number / (count - 1) if count > 1 else 0.0)


def _y(value: int, top: int) -> float:
    return _BASE - _INNER_HEIGHT * value / top


def _grid(ticks: Sequence[int], top: int, text: Callable[[int], str]) -> Markup:
    """Return a line and a text for each tick of the vertical axis."""
    return Markup("\n").join(
        Markup('<path class="axis" d="M{},{:.1f}H{}"/><text x="{}" y="{:.1f}" text-anchor="end">{}</text>').format(
            _LEFT, _y(tick, top), _WIDTH - _RIGHT, _LEFT - 6, _y(tick, top) + 4, text(tick)
        )
        for tick in ticks
    )


def _days(points: Sequence[Point]) -> Markup:
    """Return the texts of the horizontal axis: the first day, the one in the middle, and the last."""
    last = len(points) - 1
    anchors = {0: "start"} | ({last // 2: "middle"} if last > 1 else {}) | ({last: "end"} if last else {})
    return Markup("\n").join(
        Markup('<text x="{:.1f}" y="{}" text-anchor="{}">{}</text>').format(
            _x(number, len(points)), _HEIGHT - 10, anchor, points[number].day
        )
        for number, anchor in anchors.items()
    )
