"""Cookies of sessions: what is sealed comes back, and nothing else does."""

import base64
import dataclasses
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import SecretStr

from services.facade.auth.sealing import Purpose, Sealing
from services.facade.auth.sessions import PendingSignIn, Session, SessionCookies

KEY, OTHER = (SecretStr(f"a key of these tests, {name}") for name in ("one", "two"))
COOKIES = SessionCookies(KEY)
LATER = int(time.time()) + 3_600
SESSION = Session("tp_secret", LATER, "studio/film", is_own=True)
PENDING = PendingSignIn("sso", "state", "nonce", "verifier", "/studio/film", LATER)


def pair(header: str) -> str:
    """Return the Cookie header by which a browser sends a cookie back."""
    return header.partition(";")[0]


def test_a_session_comes_back_whole() -> None:
    """With the text for its forms, which is another one in each session."""
    assert COOKIES.session([pair(COOKIES.keep(SESSION))]) == SESSION
    assert Session("a", LATER).csrf != Session("a", LATER).csrf
    assert len(SESSION.csrf) >= 16


def test_a_pending_sign_in_comes_back_whole() -> None:
    """Its cookie comes with the way back from the issuer, which is another site."""
    header = COOKIES.keep_pending(PENDING)
    assert COOKIES.pending([pair(header)]) == PENDING
    assert "SameSite=Lax" in header
    assert "SameSite=Strict" in COOKIES.keep(SESSION)


def test_no_purpose_opens_the_other() -> None:
    """The value of one cookie under the name of the other is nothing."""
    session, pending = (
        pair(header).partition("=") for header in (COOKIES.keep(SESSION), COOKIES.keep_pending(PENDING))
    )
    assert COOKIES.session([f"{session[0]}={pending[2]}"]) is None
    assert COOKIES.pending([f"{pending[0]}={session[2]}"]) is None


def test_what_is_over_is_nothing() -> None:
    """From its last second on."""
    now = int(time.time())
    assert COOKIES.session([pair(COOKIES.keep(dataclasses.replace(SESSION, expires_at=now)))]) is None
    assert COOKIES.pending([pair(COOKIES.keep_pending(dataclasses.replace(PENDING, expires_at=now)))]) is None
    assert COOKIES.session([pair(COOKIES.end())]) is None
    assert COOKIES.pending([pair(COOKIES.end_pending())]) is None


def test_keys() -> None:
    """The accepted key is read, and not written; any other opens nothing."""
    old, new = pair(SessionCookies(OTHER).keep(SESSION)), pair(COOKIES.keep(SESSION))
    moving = SessionCookies(KEY, OTHER)
    assert moving.session([old]) == moving.session([new]) == SESSION
    assert COOKIES.session([pair(moving.keep(SESSION))]) == SESSION
    assert COOKIES.session([old]) is None


def test_one_of_several_cookies() -> None:
    """In one header or in several, as HTTP/2 sends them; the first of one name counts."""
    own = pair(COOKIES.keep(SESSION))
    name = own.partition("=")[0]
    for headers in ([f"a=b; {own}; c=d"], ["a=b", own], [f'x={{"a":1}}; {own}'], [f"{own}; {name}=x"], [f";;=; {own}"]):
        assert COOKIES.session(headers) == SESSION, headers
    for headers in ([f"{name}=x; {own}"], [own.replace(name, name + "2")], [own.replace("__Host-", "")], [name], []):
        assert COOKIES.session(headers) is None, headers


def test_the_secrets_are_not_shown() -> None:
    """A log line with a session has neither the credential nor the text for its forms."""
    assert "tp_secret" not in repr(SESSION)
    assert SESSION.csrf not in repr(SESSION)
    assert "verifier" not in repr(PENDING).replace("verifier=", "")


def test_the_longest_session_fits_a_cookie() -> None:
    """Browsers keep 4,096 bytes at most, with the name and the attributes."""
    longest = Session("x" * 1_024, LATER, "r" * 255, is_own=True)
    assert len(COOKIES.keep(longest)) <= 4_096


@pytest.mark.parametrize(
    "text", ["", "{}", "[]", "null", '{"credential": 1}', "x", '{"credential": "a", "expires_at": "b"}']
)
def test_what_was_sealed_by_us_in_another_form(text: str) -> None:
    """A cookie of another version is no session, and no error."""
    sealed = Sealing(KEY.get_secret_value().encode(), Purpose.SESSION).seal(text)
    assert COOKIES.session([f"__Host-towpath-session={sealed}"]) is None


def test_a_cookie_that_was_changed_is_no_session() -> None:
    """Nor is a part of one."""
    good = pair(COOKIES.keep(SESSION))
    for other in (good[:-4], *(good[:-6] + letter * 6 for letter in "AB")):
        assert other == good or COOKIES.session([other]) is None


@given(st.text(max_size=200) | st.binary(max_size=200).map(lambda data: base64.urlsafe_b64encode(data).decode()))
def test_anything_else_is_no_session(value: str) -> None:
    """And no error."""
    assert COOKIES.session([f"__Host-towpath-session={value}"]) is None
    assert COOKIES.session([value]) is None
