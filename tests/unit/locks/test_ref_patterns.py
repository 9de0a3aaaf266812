"""Refs that a pattern matches."""

import re
import subprocess

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.locks.ref_patterns import is_ref, matches_any_ref, matching
from tests.support.waiting import STEP_SECONDS

_SHORT = st.text(alphabet="ab/[.*?\n", max_size=12)
_REF = st.text(alphabet="ab/.é@{-", max_size=12).map("refs/{}".format).filter(is_ref)

_REFS = [
    "refs/heads/main",
    "refs/heads/a.b/c.locked/d@e{f}",
    "refs/heads/a./b",
    "refs/heads/-",
    "refs/heads/@",
    "refs/heads/\x80é✓",
    "a/b",
]
_NO_REFS = [
    "",
    "main",
    "@",
    "refs/heads/rel/../main",
    "refs/heads/rel/./main",
    "refs/heads/a..b",
    "refs/heads/main\n",
    "refs/heads/\x01",
    "refs/heads/\x7f",
    "refs/heads/a b",
    "refs/heads/a\tb",
    *(f"refs/heads/a{character}b" for character in "~^:?*[\\"),
    "refs/heads/a@{b",
    "refs//heads/main",
    "/refs/heads/main",
    "refs/heads/main/",
    "refs/heads/main.",
    "refs/heads/.main",
    ".refs/heads/main",
    "refs/heads/main.lock",
    "refs/heads/main.lock/a",
]


def matches(pattern: str, ref: str) -> bool:
    """Return whether a ref matches a pattern."""
    return matching([pattern], ref) is not None


@pytest.mark.parametrize(
    ("pattern", "ref", "expected"),
    [
        ("refs/heads/bob", "refs/heads/bob", True),
        ("refs/heads/rel/*", "refs/heads/rel/1", True),
        ("refs/heads/rel/*", "refs/heads/rel/1/2", True),
        ("refs/heads/v?", "refs/heads/v1", True),
        ("*", "refs/anything", True),
        ("**", "refs/x", True),
        ("*/bob", "refs/heads/bob", True),
        ("refs/a{b}", "refs/a{b}", True),
        ("refs/heads/é*", "refs/heads/été", True),
        ("refs/heads/bob", "refs/heads/bobby", False),
        ("refs/heads/bob", "refs/heads/Bob", False),
        ("refs/heads/bob", "xrefs/heads/bob", False),
        ("refs/heads/bob", "refs/heads/bob/x", False),
        ("refs/heads/bob", " refs/heads/bob", False),
        ("refs/heads/bob", "refs/heads/bob/../bob", False),
        ("refs/heads/bob", "refs/heads/bo?", False),
        ("refs/heads/bob", "bob", False),
        ("refs/heads/bob", "HEAD", False),
        ("refs/heads/bob", "main:foo", False),
        ("refs/heads/bob", "2f1c4f1e0a4c4a7f8d3b7c1f5e9d8b6a7c5d4e3f", False),
        ("refs/heads/rel/*", "refs/heads/rel", False),
        ("refs/heads/v?", "refs/heads/v", False),
        ("[ab]", "a", False),
        ("*", "", False),
        ("*", "a\0b", False),
        ("a\0b", "a\0b", False),
        ("*", "a" * 4097, False),
        ("refs/heads/bob", "refs/heads/bob\n", False),
        ("refs/heads/rel/*", "refs/heads/rel/../main", False),
        ("*", "*", False),
    ],
)
def test_a_pattern_and_a_ref(pattern: str, ref: str, *, expected: bool) -> None:
    """A "*" is any characters, "/" included, "?" any one, all else itself; the whole ref counts, if it is one."""
    assert matches(pattern, ref) is expected


@pytest.mark.parametrize("name", [*_REFS, *_NO_REFS])
def test_a_ref_is_what_git_takes_for_one(name: str) -> None:
    """A name that git would refuse or read in another way can be no ref that a user was granted."""
    git = subprocess.run(["git", "check-ref-format", name], check=False)
    assert is_ref(name) is (git.returncode == 0) is (name in _REFS)


@pytest.mark.parametrize("name", _NO_REFS)
def test_what_is_no_ref_matches_nothing(name: str) -> None:
    """Neither itself nor everything covers it."""
    assert not any(matches(pattern, name) for pattern in ("*", "refs/*", "refs/heads/*", "refs/heads/rel/*", name))


@given(_SHORT.map("refs/{}".format), _REF)
def test_a_pattern_that_matches_no_ref_is_known(pattern: str, ref: str) -> None:
    """A pattern that is called useless never matches."""
    assert matches_any_ref(pattern) or not matches(pattern, ref)


@given(_SHORT, _REF)
def test_like_a_regular_expression(pattern: str, ref: str) -> None:
    """The matcher agrees with the regular expression that says the same."""
    expression = "".join({"*": ".*", "?": "."}.get(character, re.escape(character)) for character in pattern)
    assert matches(pattern, ref) is (re.fullmatch(expression, ref, re.DOTALL) is not None)


@given(st.text(), st.text())
def test_any_pattern_and_ref(pattern: str, ref: str) -> None:
    """No text makes the matcher fail, and a ref matches itself."""
    assert matches(pattern, ref) in (True, False)
    assert matches(ref, ref) is is_ref(ref)


@pytest.mark.timeout(STEP_SECONDS)
def test_no_pattern_takes_for_ever() -> None:
    """A pattern that makes regular expressions explode is answered."""
    assert not matches("*a" * 127 + "b", "refs/" + "a" * 4091)


def test_the_first_matching_pattern_is_told() -> None:
    """An explanation names the pattern that decided."""
    assert matching(["refs/tags/*", "refs/heads/b*", "*"], "refs/heads/bob") == "refs/heads/b*"
    assert matching([], "refs/heads/bob") is None
