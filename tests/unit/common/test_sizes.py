"""Sizes as people read them, and the message of a quota."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.common.sizes import decimal_size, is_warned_of, quota_message


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (0, "0 bytes"),
        (1, "1 byte"),
        (999, "999 bytes"),
        (1000, "1 kB"),
        (1500, "1.5 kB"),
        (99_940, "99.9 kB"),
        (99_960, "100 kB"),
        (999_499, "999 kB"),
        (999_500, "1 MB"),
        (412_000_000_000, "412 GB"),
        (2**63 - 1, "9.2 EB"),
    ],
)
def test_a_size_has_a_unit(count: int, text: str) -> None:
    """Units are decimal, as those of the commands."""
    assert decimal_size(count) == text


@given(st.integers(0, 2**63 - 1))
def test_a_size_is_short(count: int) -> None:
    """No size has more than three digits before the point."""
    assert len(decimal_size(count).split()[0].split(".")[0]) <= 3


def test_the_message_of_a_quota() -> None:
    """A user reads how much is used, and of how much."""
    assert quota_message(412_000_000_000, 500_000_000_000) == "412 GB of 500 GB used"


def test_a_quota_is_warned_of_from_80_percent_on() -> None:
    """The share is exact at any size."""
    assert not is_warned_of(79, 100)
    assert is_warned_of(80, 100)
    assert not is_warned_of(2**62 // 5 * 4 - 1, 2**62 // 5 * 5)
