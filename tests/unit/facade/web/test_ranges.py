"""Byte ranges of a Range header (trap-8)."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.common.errors import OutOfRange
from services.facade.web.ranges import (
    ByteRange,
    headers,
    if_match_matches,
    if_none_match_matches,
    if_range_matches,
    parse_range,
)

GIB = 1024**3


@pytest.mark.parametrize(
    ("header", "size", "expected"),
    [
        ("bytes=0-4", 10, ByteRange(0, 5)),
        ("bytes=1-2", 10, ByteRange(1, 3)),
        ("bytes=0-", 10, ByteRange(0, 10)),
        ("bytes=9-", 10, ByteRange(9, 10)),
        ("bytes=5-99", 10, ByteRange(5, 10)),
        ("bytes=-3", 10, ByteRange(7, 10)),
        ("bytes=-99", 10, ByteRange(0, 10)),
        ("Bytes= 1-2 ,", 10, ByteRange(1, 3)),
        ("bytes=0-" + "9" * 100, 10, ByteRange(0, 10)),
        (f"bytes={5 * GIB}-{6 * GIB}", 7 * GIB, ByteRange(5 * GIB, 6 * GIB + 1)),
    ],
)
def test_a_single_range_is_a_slice(header: str, size: int, expected: ByteRange) -> None:
    """Both ends count, and sizes have no 32-bit limit (trap-7)."""
    assert parse_range([header], size) == expected


@pytest.mark.parametrize(
    "header",
    [
        "",
        "bytes",
        "bytes=",
        "bytes=-",
        "bytes=a-b",
        "bytes=1",
        "bytes=1.0-2",
        "bytes=1-\xb2",
        "bytes=0x1-2",
        "bytes 1-2",
        "garbage",
        "bytes=5-2",
        "bytes=0-1,3-4",
        "bytes=1-2-3",
        "bytes=+1-2",
        "bytes=\u0661-",
        "lines=1-2",
        "bytes=0-" + "9" * 1000,
    ],
)
def test_what_is_no_single_range_is_ignored(header: str) -> None:
    """Then the whole object is sent, which is never wrong."""
    assert parse_range([header], 10) is None


def test_two_headers_are_ignored() -> None:
    """Range may come once."""
    assert parse_range(["bytes=0-1", "bytes=0-1"], 10) is None
    assert parse_range([], 10) is None


@pytest.mark.parametrize(("header", "size"), [("bytes=10-", 10), ("bytes=0-0", 0), ("bytes=-0", 10), ("bytes=99-", 1)])
def test_a_range_beyond_the_end_is_refused_with_the_size(header: str, size: int) -> None:
    """416 tells the size."""
    with pytest.raises(OutOfRange) as caught:
        parse_range([header], size)
    assert caught.value.metadata == {"size": str(size)}


def test_the_end_of_an_empty_object_is_the_whole_of_it() -> None:
    """No Content-Range can tell of no bytes."""
    assert parse_range(["bytes=-5"], 0) is None


@given(st.integers(0, 50), st.integers(0, 50), st.integers(1, 50))
def test_a_slice_is_what_the_bytes_are(first: int, last: int, size: int) -> None:
    """Against the definition: the bytes whose positions lie between both ends."""
    data = bytes(range(size))
    try:
        part = parse_range([f"bytes={first}-{last}"], size)
    except OutOfRange:
        assert first >= size
        return
    if part is None:
        assert last < first
        return
    assert data[part.start : part.end] == bytes(at for at in range(size) if first <= at <= last)


@given(st.text(max_size=30) | st.from_regex(r"bytes=[0-9, -]*"), st.integers(0, 2**63 - 1))
def test_no_header_is_too_strange(header: str, size: int) -> None:
    """A slice lies within the object, whatever was asked."""
    try:
        part = parse_range([header], size)
    except OutOfRange:
        return
    assert part is None or 0 <= part.start < part.end <= size


def test_the_headers_of_a_part_tell_part_and_whole() -> None:
    """The total in Content-Range is the size of the object, not what remains (trap-8)."""
    told = headers(ByteRange(2, 5), 10, '"tag"', partial=True)
    assert (told["Content-Length"], told["Content-Range"]) == ("3", "bytes 2-4/10")
    assert "Content-Range" not in headers(ByteRange(0, 10), 10, '"tag"', partial=False)


@pytest.mark.parametrize(("tag", "expected"), [(None, True), ('"a"', True), ('"b"', False), ('W/"a"', False)])
def test_if_range_needs_the_same_entity_tag(tag: str | None, expected: bool) -> None:
    """With another tag, or a date, the whole object is sent."""
    assert if_range_matches(tag, '"a"') is expected


@pytest.mark.parametrize(
    ("tags", "expected"),
    [([], False), (['"a"'], True), (['"b", W/"a"'], True), (["*"], True), (['"b"'], False), (["a"], False)],
)
def test_if_none_match_names_what_the_client_holds(tags: list[str], expected: bool) -> None:
    """Any of the tags, weak or not."""
    assert if_none_match_matches(tags, '"a"') is expected


@pytest.mark.parametrize(
    ("tags", "expected"),
    [
        ([], True),
        (["*"], True),
        (['"a"'], True),
        (['"b"', '"c" , "a"'], True),
        (['W/"a"'], False),
        (['"b"'], False),
        (["a"], False),
        ([""], False),
    ],
)
def test_if_match_names_what_the_client_expects(tags: list[str], expected: bool) -> None:
    """Compared strongly: a weak tag is never the same."""
    assert if_match_matches(tags, '"a"') is expected
