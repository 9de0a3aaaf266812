"""Lockable paths."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.common.errors import InvalidArgument, Reason
from services.locks.locking.paths import check_path, path_hash

_PARTS = st.text(st.characters(exclude_characters="/\0", exclude_categories=["Cs"]), min_size=1, max_size=20).filter(
    lambda part: part not in (".", "..")
)


@pytest.mark.parametrize(
    "path",
    [
        "f1.dat",
        "a/b/c.psd",
        " ",
        "...",
        ".hidden/..x",
        "with\nnewline",
        'quo"te\\back',
        "100%",
        "%2e%2e/a",
        "a?b#c&d+e=f",
        "e\u0301",
        "\u00e9",
        "\ufffd",
        "C:\\x",
        "\U0001f512",
    ],
)
def test_strange_paths_are_allowed(path: str) -> None:
    """All but the forbidden few can be locked."""
    check_path(path, max_bytes=4096)


@pytest.mark.parametrize(
    "path", ["", "/", "/etc/passwd", "a//b", "a/", ".", "..", "./a", "a/./b", "../a", "a/..", "a/../b", "a\0b", "\0"]
)
def test_other_paths_are_refused(path: str) -> None:
    """A path is relative, without empty, "." or ".." parts and without NUL; the message names the field."""
    with pytest.raises(InvalidArgument, match=r"^path: ") as caught:
        check_path(path, max_bytes=4096)
    assert caught.value.reason == Reason.INVALID_PATH


def test_the_length_is_counted_in_bytes() -> None:
    """The limit is of UTF-8 bytes, and inclusive."""
    check_path("é" * 2048, max_bytes=4096)
    with pytest.raises(InvalidArgument):
        check_path("é" * 2048 + "a", max_bytes=4096)


@given(st.lists(_PARTS, min_size=1, max_size=8).map("/".join))
def test_whatever_is_made_of_parts_is_allowed(path: str) -> None:
    """Parts other than "." and "..", joined by "/", are a path."""
    check_path(path, max_bytes=4096)


@given(st.text())
def test_any_text_is_allowed_or_refused(text: str) -> None:
    """No text makes the rule fail, and what it lets through has no forbidden part."""
    try:
        check_path(text, max_bytes=64)
    except InvalidArgument:
        return
    assert "\0" not in text
    assert all(part not in ("", ".", "..") for part in text.split("/"))
    assert len(text.encode(errors="surrogatepass")) <= 64


@given(st.text(), st.text())
def test_paths_are_told_apart_byte_for_byte(one: str, other: str) -> None:
    """Two paths have one hash only when they are one path."""
    assert (path_hash(one) == path_hash(other)) is (one == other)
