"""Which dialect answers a request."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.facade.web.media_types import (
    DIALECTS,
    NEUTRAL,
    WIDESPREAD,
    Dialect,
    answering,
    negotiate,
    of_content_type,
)

B, L = NEUTRAL.media_type, WIDESPREAD.media_type


@pytest.mark.parametrize(
    ("accept", "content_type", "expected"),
    [
        ([], None, NEUTRAL),
        ([], L, WIDESPREAD),
        ([], "text/plain", NEUTRAL),
        ([""], L, WIDESPREAD),
        ([B], L, NEUTRAL),
        ([L], B, WIDESPREAD),
        ([f"{L}; charset=utf-8"], B, WIDESPREAD),
        ([L.upper()], None, WIDESPREAD),
        (["*/*"], None, NEUTRAL),
        (["*/*"], f"{L}; charset=utf-8", WIDESPREAD),
        (["application/*"], L, WIDESPREAD),
        ([f"{L}, */*"], B, WIDESPREAD),
        ([f"{L};q=0.5, */*;q=0.8"], L, NEUTRAL),
        ([f"{B};q=0.2, {L};q=0.3"], B, WIDESPREAD),
        ([f"{B}, {L}"], L, WIDESPREAD),
        ([f"{B}, {L}"], None, NEUTRAL),
        (["text/html", L], B, WIDESPREAD),
        ([f"*/*, {B};q=0"], B, WIDESPREAD),
        (["text/html"], L, None),
        (["application/json"], B, None),
        ([f"{B};q=0"], B, None),
        (["*/*;q=0"], L, None),
        (["no media type"], L, WIDESPREAD),
        ([f"{L};q=high"], B, WIDESPREAD),
    ],
)
def test_accept_decides_then_content_type_then_the_neutral_one(
    accept: list[str], content_type: str | None, expected: Dialect | None
) -> None:
    """Accept by weight and precision; what it leaves open, Content-Type decides (design: two dialects)."""
    assert negotiate(accept, content_type) == expected


@pytest.mark.parametrize(
    ("content_type", "expected"),
    [
        (B, NEUTRAL),
        (L, WIDESPREAD),
        (f"{L}; charset=utf-8", WIDESPREAD),
        (f"{L};charset=UTF-8", WIDESPREAD),
        (f'{B}; charset="utf-8"; x=y', NEUTRAL),
        (f"{L}; charset=utf8", WIDESPREAD),
        (f'{B}; charset="UTF8"', NEUTRAL),
        (f"{B}; charset=latin-1", None),
        (f"{B}; charset=utf-16", None),
        ("application/json", None),
        ("", None),
        (None, None),
    ],
)
def test_a_content_type_names_a_dialect(content_type: str | None, expected: Dialect | None) -> None:
    """The charset utf-8 may be added (protocol: "Common request and response conventions")."""
    assert of_content_type(content_type) == expected


@pytest.mark.parametrize(("content_type", "expected"), [(L, WIDESPREAD), (None, NEUTRAL)])
def test_who_accepts_neither_is_told_so_in_the_dialect_that_it_speaks(
    content_type: str | None, expected: Dialect
) -> None:
    """The body of a 406 has a dialect too."""
    assert answering(["text/html"], content_type) == expected


@given(st.lists(st.text(max_size=60), max_size=3), st.none() | st.text(max_size=60))
def test_no_header_is_too_strange(accept: list[str], content_type: str | None) -> None:
    """Whatever Accept and Content-Type hold, the answer has a dialect."""
    assert answering(accept, content_type) in DIALECTS


@given(st.floats(0.001, 1), st.floats(0.001, 1))
def test_the_greater_weight_wins(neutral: float, widespread: float) -> None:
    """Of two that are named, the one of greater weight answers."""
    chosen = negotiate([f"{B};q={neutral:.3f}, {L};q={widespread:.3f}"], None)
    assert chosen == (WIDESPREAD if round(widespread, 3) > round(neutral, 3) else NEUTRAL)
