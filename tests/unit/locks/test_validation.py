"""Valid names of users, tokens, repositories and ref patterns."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.common.errors import InvalidArgument
from services.locks.validation import (
    check_idempotency_key,
    check_name,
    check_ref_patterns,
    check_repository_name,
    is_repository_name,
)


@pytest.mark.parametrize("name", ["a", "alice@example.com", "ci+build_1.x-2", "A" * 64])
def test_names(name: str) -> None:
    """Names of users and tokens are 1 to 64 of the allowed characters."""
    check_name("name", name)


@pytest.mark.parametrize("name", ["", "a b", "a/b", "é", "a\n", "a\0", "A" * 65, "a:b"])
def test_other_names_are_refused(name: str) -> None:
    """The message names the field."""
    with pytest.raises(InvalidArgument, match=r"^user_name: "):
        check_name("user_name", name)


@pytest.mark.parametrize("name", ["a", "demo/assets", "studio/film/assets", "a.b/c_d/e-f", "..a/b..", "a" * 255, "git"])
def test_repository_names(name: str) -> None:
    """A name is one or more segments."""
    check_repository_name("name", name)
    assert is_repository_name(name)


@pytest.mark.parametrize(
    "name",
    [
        "",
        "/",
        "a/",
        "/a",
        "a//b",
        ".",
        "..",
        "a/../b",
        "./a",
        "a.git",
        "a.git/b",
        "a b",
        "a=b",
        "é",
        "a\0",
        "a\n",
        "a" * 256,
    ],
)
def test_other_repository_names_are_refused(name: str) -> None:
    """No empty segment, none that a path would resolve, none that ends in ".git", no "=" (client-21)."""
    assert not is_repository_name(name)
    with pytest.raises(InvalidArgument, match=r"^repository: "):
        check_repository_name("repository", name)


@given(st.text())
def test_any_text_is_a_repository_name_or_not(text: str) -> None:
    """A valid name must have nothing that means something else in an address."""
    if is_repository_name(text):
        assert not set(text) & set("=%?#\\\0 ")
        assert all(segment not in ("", ".", "..") for segment in text.split("/"))


def test_ref_patterns_are_kept_once_each() -> None:
    """Order is kept, repeats are dropped."""
    assert check_ref_patterns("ref_patterns", ["refs/heads/b*", "refs/heads/a", "refs/heads/b*"]) == [
        "refs/heads/b*",
        "refs/heads/a",
    ]


@pytest.mark.parametrize("patterns", [[""], ["a\0b"], ["a" * 256], [str(number) for number in range(101)]])
def test_other_ref_patterns_are_refused(patterns: list[str]) -> None:
    """Empty, too long, too many, or with NUL."""
    with pytest.raises(InvalidArgument, match=r"^ref_patterns: "):
        check_ref_patterns("ref_patterns", patterns)


@pytest.mark.parametrize(
    ("pattern", "hint"),
    [
        ("main", "such as refs/heads/main"),
        ("rel/*", "such as refs/heads/rel/*"),
        ("*", "such as refs/heads/*"),
        ("/refs/heads/main", "such as refs/heads/main"),
        ("refs/heads/[ab", 'no "["'),
        ("refs/heads/[ab]", 'no "["'),
        ("refs/heads/a b", "without spaces"),
        ("refs/heads/rel/../*", "without spaces"),
        ("refs/heads/*/", "without spaces"),
        ("refs/heads/*.lock", "without spaces"),
    ],
)
def test_ref_patterns_that_match_nothing_are_refused(pattern: str, hint: str) -> None:
    """Such a grant would let its user write nothing, and nobody would know why; the message says what is meant."""
    with pytest.raises(InvalidArgument, match=r"^ref_patterns: ") as caught:
        check_ref_patterns("ref_patterns", ["refs/heads/main", pattern])
    assert hint in caught.value.message


@pytest.mark.parametrize("key", ["a" * 65, "\0"])
def test_idempotency_keys_are_bounded(key: str) -> None:
    """At most 64 characters, without NUL."""
    check_idempotency_key("a" * 64)
    with pytest.raises(InvalidArgument, match=r"^idempotency_key: "):
        check_idempotency_key(key)
