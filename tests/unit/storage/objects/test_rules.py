"""The rules of ranges, of announced bytes, of removal messages."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.common.errors import OutOfRange, trailing_metadata
from services.storage.errors import object_removed
from services.storage.objects.read import range_length
from services.storage.objects.stat import ObjectKey, ObjectStat, Status, missing_sizes

_SIZES = st.integers(0, 2**63 - 1)


@given(size=_SIZES, offset=_SIZES, length=st.none() | _SIZES)
def test_trap_8_ranges(size: int, offset: int, length: int | None) -> None:
    """A range is what Python's slices say it is, at any 64-bit size; beyond the end it is refused (trap-7, trap-8)."""
    if offset > size:
        with pytest.raises(OutOfRange) as caught:
            range_length(size, offset, length)
        assert caught.value.metadata == {"size": str(size)}
        return
    end = size if length is None else min(offset + length, size)
    assert range_length(size, offset, length) == end - offset


def test_missing_sizes_have_each_object_once() -> None:
    """Only what is missing is announced, and a repeated object once."""
    keys = [ObjectKey("a", 5), ObjectKey("a", 5), ObjectKey("b", 7), ObjectKey("c", 2**62)]
    missing, present = ObjectStat(Status.MISSING), ObjectStat(Status.PRESENT, 7)
    assert missing_sizes(keys, [missing, missing, present, missing]) == {"a": 5, "c": 2**62}
    assert missing_sizes(keys, [present] * 4) == {}
    assert missing_sizes([ObjectKey("e", 0)], [missing]) == {"e": 0}


@given(st.text(max_size=1000))
def test_removal_errors_fit_into_headers(reason: str) -> None:
    """However long the reason, the status stays well below what gRPC lets through (8 KiB)."""
    error = object_removed("a" * 64, reason)
    # The message travels percent-encoded, the details in base64.
    assert 3 * len(error.message.encode()) + 4 * len(trailing_metadata(error)[0][1]) // 3 < 6000
