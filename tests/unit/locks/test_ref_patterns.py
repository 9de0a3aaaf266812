"""Which refs a pattern matches."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.locks.ref_patterns import matches, matching
from tests.support.waiting import STEP_SECONDS

_SHORT = st.text(alphabet="ab/[.*?\n", max_size=12)


@pytest.mark.parametrize(
    ("pattern", "ref"),
    [
        ("refs/heads/bob", "refs/heads/bob"),
        ("refs/heads/rel/*", "refs/heads/rel/1"),
        ("refs/heads/rel/*", "refs/heads/rel/1/2"),
        ("refs/heads/v?", "refs/heads/v1"),
        ("*", "anything"),
        ("**", "x"),
        ("*/bob", "refs/heads/bob"),
        ("[ab]", "[ab]"),
        ("refs/heads/é*", "refs/heads/été"),
    ],
)
def test_matching_refs(pattern: str, ref: str) -> None:
    """A "*" is any characters, "/" included; "?" is any one; all else is itself."""
    assert matches(pattern, ref)


@pytest.mark.parametrize(
    ("pattern", "ref"),
    [
        ("refs/heads/bob", "refs/heads/bobby"),
        ("refs/heads/bob", "refs/heads/Bob"),
        ("refs/heads/bob", "xrefs/heads/bob"),
        ("refs/heads/rel/*", "refs/heads/rel"),
        ("refs/heads/v?", "refs/heads/v"),
        ("[ab]", "a"),
        ("*", ""),
        ("*", "a\0b"),
        ("a\0b", "a\0b"),
        ("*", "a" * 4097),
        ("refs/heads/bob", "refs/heads/bob\n"),
    ],
)
def test_other_refs(pattern: str, ref: str) -> None:
    """Case counts, the whole ref counts, and no ref matches nothing."""
    assert not matches(pattern, ref)


@given(_SHORT, _SHORT.filter(bool))
def test_like_a_regular_expression(pattern: str, ref: str) -> None:
    """The matcher agrees with the regular expression that says the same."""
    expression = "".join({"*": ".*", "?": "."}.get(character, re.escape(character)) for character in pattern)
    assert matches(pattern, ref) is (re.fullmatch(expression, ref, re.DOTALL) is not None)


@given(st.text(), st.text())
def test_any_pattern_and_ref(pattern: str, ref: str) -> None:
    """No text makes the matcher fail, and a ref matches itself where it can match at all."""
    assert matches(pattern, ref) in (True, False)
    if ref and "\0" not in ref and not set(ref) & set("*?"):
        assert matches(ref, ref)


@pytest.mark.timeout(STEP_SECONDS)
def test_no_pattern_takes_for_ever() -> None:
    """A pattern that makes regular expressions explode is answered."""
    assert not matches("*a" * 127 + "b", "a" * 4096)


def test_the_first_matching_pattern_is_told() -> None:
    """An explanation names the pattern that decided."""
    assert matching(["refs/tags/*", "refs/heads/b*", "*"], "refs/heads/bob") == "refs/heads/b*"
    assert matching([], "refs/heads/bob") is None
