"""Choice of the dialect that answers a request."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.facade.web.media_types import (
    DIALECTS,
    GENERIC,
    GIT_LFS,
    Dialect,
    for_error,
    from_content_type,
    negotiate,
)

B, L = GENERIC.media_type, GIT_LFS.media_type


@pytest.mark.parametrize(
    ("accept", "content_type", "expected"),
    [
        ([], None, GENERIC),
        ([], L, GIT_LFS),
        ([], "text/plain", GENERIC),
        ([""], L, GIT_LFS),
        ([B], L, GENERIC),
        ([L], B, GIT_LFS),
        ([f"{L}; charset=utf-8"], B, GIT_LFS),
        ([L.upper()], None, GIT_LFS),
        (["*/*"], None, GENERIC),
        (["*/*"], f"{L}; charset=utf-8", GIT_LFS),
        (["application/*"], L, GIT_LFS),
        ([f"{L}, */*"], B, GIT_LFS),
        ([f"{L};q=0.5, */*;q=0.8"], L, GENERIC),
        ([f"{B};q=0.2, {L};q=0.3"], B, GIT_LFS),
        ([f"{B}, {L}"], L, GIT_LFS),
        ([f"{B}, {L}"], None, GENERIC),
        (["text/html", L], B, GIT_LFS),
        ([f"*/*, {B};q=0"], B, GIT_LFS),
        (["text/html"], L, None),
        (["application/json"], B, None),
        ([f"{B};q=0"], B, None),
        (["*/*;q=0"], L, None),
        (["no media type"], L, GIT_LFS),
        ([f"{L};q=high"], B, GIT_LFS),
    ],
)
def test_accept_decides_then_content_type_then_the_neutral_one(
    accept: list[str], content_type: str | None, expected: Dialect | None
) -> None:
    """A client must be able to read the answer: Accept decides by weight and precision, Content-Type the rest."""
    assert negotiate(accept, content_type) == expected


@pytest.mark.parametrize(
    ("content_type", "expected"),
    [
        (B, GENERIC),
        (L, GIT_LFS),
        (f"{L}; charset=utf-8", GIT_LFS),
        (f"{L};charset=UTF-8", GIT_LFS),
        (f'{B}; charset="utf-8"; x=y', GENERIC),
        (f"{L}; charset=utf8", GIT_LFS),
        (f'{B}; charset="UTF8"', GENERIC),
        (f"{B}; charset=latin-1", None),
        (f"{B}; charset=utf-16", None),
        ("application/json", None),
        ("", None),
        (None, None),
    ],
)
def test_a_content_type_names_a_dialect(content_type: str | None, expected: Dialect | None) -> None:
    """The charset utf-8 may be added (protocol: "Common request and response conventions")."""
    assert from_content_type(content_type) == expected


@pytest.mark.parametrize(("content_type", "expected"), [(L, GIT_LFS), (None, GENERIC)])
def test_who_accepts_neither_is_told_so_in_the_dialect_that_it_speaks(
    content_type: str | None, expected: Dialect
) -> None:
    """The body of a 406 has a dialect too."""
    assert for_error(["text/html"], content_type) == expected


@given(st.lists(st.text(max_size=60), max_size=3), st.none() | st.text(max_size=60))
def test_no_header_is_too_strange(accept: list[str], content_type: str | None) -> None:
    """Whatever Accept and Content-Type hold, the answer has a dialect."""
    assert for_error(accept, content_type) in DIALECTS


@given(st.floats(0.001, 1), st.floats(0.001, 1))
def test_the_greater_weight_wins(neutral: float, widespread: float) -> None:
    """Of two that are named, the one of greater weight answers."""
    chosen = negotiate([f"{B};q={neutral:.3f}, {L};q={widespread:.3f}"], None)
    assert chosen == (GIT_LFS if round(widespread, 3) > round(neutral, 3) else GENERIC)
