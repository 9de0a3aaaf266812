"""Credentials in an Authorization header."""

import base64

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.facade.web.authorization_header import bearer, split_values, tokens


def _basic(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


@pytest.mark.parametrize(
    ("header", "token"),
    [
        (f"Basic {_basic('alice:secret')}", "secret"),
        (f"basic  {_basic('alice:secret')} ", "secret"),
        (f"Basic {_basic(':secret')}", "secret"),
        (f"Basic {_basic('alice:se:cr:et')}", "se:cr:et"),
        (f"Basic {_basic('älice:pässwörd')}", "pässwörd"),
        ("Bearer tp_secret", "tp_secret"),
        ("BEARER tp_secret", "tp_secret"),
    ],
)
def test_a_token_is_bearer_or_the_password_of_basic(header: str, token: str) -> None:
    """Any user name will do; the password is UTF-8 and may have colons."""
    assert tokens(header) == (token,)


@pytest.mark.parametrize(
    "header",
    [
        "",
        " ",
        "Basic",
        "Basic !!!",
        "Basic YWxpY2U",
        f"Basic {_basic('alice')}",
        f"Basic {_basic('alice:')}",
        f"Basic {base64.b64encode(b'alice:' + bytes([255])).decode()}",
        "Bearer",
        "Bearer two words",
        "Bearer \xe9",
        "Digest username=alice",
        "secret",
    ],
)
def test_a_malformed_header_shows_nothing(header: str) -> None:
    """It is as bad as a wrong password, no failure of the service."""
    assert tokens(header) == ()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("tp_secret:", ("tp_secret",)),
        ("tp_secret:x-oauth-basic", ("x-oauth-basic", "tp_secret")),
        ("tp_a:tp_b", ("tp_b", "tp_a")),
        ("TP_secret:x", ("x",)),
    ],
)
def test_a_user_name_that_looks_like_a_token_comes_after_the_password(text: str, expected: tuple[str, ...]) -> None:
    """Other forges take it so, and so do programs that know only them."""
    assert tokens(f"Basic {_basic(text)}") == expected


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ([], []),
        (["", " , ,"], []),
        (["Basic YTpi,Bearer x"], ["Basic YTpi", "Bearer x"]),
        (["Basic YTpi", "Bearer x , Bearer y"], ["Basic YTpi", "Bearer x", "Bearer y"]),
        (
            ['Digest username="a", realm="Basic YTpi"', "Bearer x"],
            ['Digest username="a"', 'realm="Basic YTpi"', "Bearer x"],
        ),
    ],
)
def test_values_that_a_comma_joins_are_taken_apart(headers: list[str], expected: list[str]) -> None:
    """A proxy, or a program that adds a header to what is there, makes one of two (client-9)."""
    assert list(split_values(headers)) == expected


def test_basic_is_no_bearer() -> None:
    """The token of an action comes as Bearer alone."""
    assert bearer(f"Basic {_basic('x:y')}") is None
    assert bearer("Bearer y") == "y"


@given(st.text(max_size=100))
def test_no_header_is_too_strange(header: str) -> None:
    """Whatever the header holds, it is read without an error."""
    tokens(header)


@given(st.text(min_size=1).filter(lambda text: ":" not in text), st.text(min_size=1))
def test_every_password_comes_through(user: str, password: str) -> None:
    """A password may be any text, so decoding must return exactly the encoded password."""
    try:
        encoded = _basic(f"{user}:{password}")
    except UnicodeEncodeError:
        return
    assert tokens(f"Basic {encoded}")[0] == password
