"""The rule that decides whether bytes are what was announced."""

import hashlib
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.common.errors import InvalidArgument
from services.storage.uploads.checksum import ChecksumVerifier

_CUTS = st.lists(st.integers(0, 300), max_size=8)


async def _take(oid: str, size: int, data: bytes, cuts: list[int]) -> None:
    tally = ChecksumVerifier(oid, size)
    for start, end in pairwise([0, *sorted(min(cut, len(data)) for cut in cuts), len(data)]):
        tally.count(data[start:end])
        await tally.hash(data[start:end])
    tally.finish()


@given(data=st.binary(max_size=300), cuts=_CUTS)
async def test_right_bytes_pass_however_they_are_cut(data: bytes, cuts: list[int]) -> None:
    """The pieces in which bytes come change nothing."""
    await _take(hashlib.sha256(data).hexdigest(), len(data), data, cuts)


@given(data=st.binary(max_size=300), size=st.integers(0, 400), cuts=_CUTS)
async def test_trap_5_size_is_counted(data: bytes, size: int, cuts: list[int]) -> None:
    """Bytes of another count than announced are refused (trap-5)."""
    if size == len(data):
        size += 1
    with pytest.raises(InvalidArgument) as caught:
        await _take(hashlib.sha256(data).hexdigest(), size, data, cuts)
    assert caught.value.reason == "SIZE_MISMATCH"


@given(data=st.binary(max_size=300), other=st.binary(max_size=300), cuts=_CUTS)
async def test_trap_1_hash_is_checked(data: bytes, other: bytes, cuts: list[int]) -> None:
    """Bytes with another hash than announced are refused (trap-1)."""
    if data == other:
        other += b"x"
    with pytest.raises(InvalidArgument) as caught:
        await _take(hashlib.sha256(other).hexdigest(), len(data), data, cuts)
    assert caught.value.reason == "HASH_MISMATCH"


def test_first_byte_too_many_is_refused_at_once() -> None:
    """The upload must be refused at its first surplus byte, without a wait for the rest."""
    tally = ChecksumVerifier("0" * 64, 3)
    tally.count(b"abc")
    with pytest.raises(InvalidArgument, match="expected 3 bytes, got more"):
        tally.count(b"d")
