"""Charts are well-formed SVG, keep within their box, and say in words what they show."""

import re
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.common.sizes import decimal_size
from services.facade.pages.charts import Point, area_chart, description, tick_step

_SVG = "{http://www.w3.org/2000/svg}"


def _chart(*values: int) -> ElementTree.Element:
    points = [Point(f"2026-03-{number:02}", value) for number, value in enumerate(values, 1)]
    markup = area_chart("size", "Size by day", points, decimal_size)
    # As HTML needs no namespace, a parser of XML needs one.
    svg = str(markup).replace("<svg ", '<svg xmlns="http://www.w3.org/2000/svg" ', 1)
    return ElementTree.fromstring(svg)  # noqa: S314 - our own markup


def _numbers(chart: ElementTree.Element, kind: str) -> list[tuple[float, float]]:
    [path] = [path for path in chart.iter(f"{_SVG}path") if path.get("class") == kind]
    return [(float(x), float(y)) for x, y in re.findall(r"([\d.]+),([\d.]+)", path.get("d") or "")]


def test_the_line_rises_with_the_values() -> None:
    """From left to right, and the larger value is higher, which in SVG is the smaller number."""
    line = _numbers(_chart(1_000, 2_000, 4_000), "line")
    assert [x for x, _ in line] == sorted({x for x, _ in line})
    assert [y for _, y in line] == sorted((y for _, y in line), reverse=True)
    assert line[0][1] - line[1][1] == pytest.approx((line[1][1] - line[2][1]) / 2)


def test_the_area_ends_at_the_base() -> None:
    """It is closed below the last and the first point, at the height of zero."""
    chart = _chart(5, 0, 3)
    line, area = _numbers(chart, "line"), _numbers(chart, "area")
    assert area[:3] == line
    assert area[3:] == [(line[2][0], line[1][1]), (line[0][0], line[1][1])]


def test_the_axes_have_texts() -> None:
    """Round values beside the lines, and the first, the middle and the last day below."""
    texts = [text.text for text in _chart(0, 1_500_000, 2_900_000, 3_100_000, 100).iter(f"{_SVG}text")]
    assert texts == ["0 bytes", "1 MB", "2 MB", "3 MB", "4 MB", "2026-03-01", "2026-03-03", "2026-03-05"]


def test_the_title_and_the_description_name_the_picture() -> None:
    """By their ids, as screen readers expect of an image."""
    chart = _chart(1_000, 3_000, 2_000)
    named = {element.get("id"): element.text for element in chart if element.get("id")}
    assert chart.get("role") == "img"
    assert (chart.get("aria-labelledby") or "").split() == list(named) == ["size-title", "size-desc"]
    assert list(named.values()) == [
        "Size by day",
        "From 1 kB on 2026-03-01 to 2 kB on 2026-03-03; the most is 3 kB on 2026-03-02.",
    ]


def test_markup_in_texts_stays_text() -> None:
    """The title, the unit and the day are escaped."""
    markup = area_chart("size", "<b>&", [Point('"<i>', 1)], lambda value: f"{value} <s>")
    assert not re.search(r"<[bis]>", markup)
    assert "&lt;b&gt;&amp;" in markup


def test_nothing_in_it_needs_a_style() -> None:
    """The policy of the pages forbids styles and scripts within a page."""
    markup = area_chart("size", "Size", [Point("2026-03-01", 1), Point("2026-03-02", 2)], str)
    assert "style" not in markup
    assert "script" not in markup


def test_one_point_is_a_level_line() -> None:
    """Over the whole width."""
    [(left, height), (right, same)] = _numbers(_chart(7), "line")
    assert left < right
    assert height == same


def test_no_points_are_no_picture() -> None:
    """The page says in words that there is nothing."""
    assert area_chart("size", "Size by day", [], decimal_size) == ""


@given(st.lists(st.integers(0, 2**63 - 1), min_size=1, max_size=28))
def test_all_is_within_the_box(values: list[int]) -> None:
    """Whatever the values, so that nothing is cut off."""
    chart = _chart(*values)
    _, _, width, height = map(float, (chart.get("viewBox") or "").split())
    assert all(0 <= x <= width and 0 <= y <= height for x, y in _numbers(chart, "area"))


@given(st.integers(0, 2**63 - 1))
def test_ticks_are_few_and_round(most: int) -> None:
    """Four at most above zero, of a step that begins with 1, 2 or 5, and no smaller step would do."""
    step = tick_step(most)
    assert re.fullmatch(r"[125]0*", str(step))
    assert step * 4 >= most
    assert step == 1 or step * 8 < most * 5


def test_the_description_of_one_day() -> None:
    """It is the first, the last and the largest at once."""
    assert description([Point("2026-03-01", 0)], str) == (
        "From 0 on 2026-03-01 to 0 on 2026-03-01; the most is 0 on 2026-03-01."
    )
