"""Valid values of request fields."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.common.errors import InvalidArgument
from services.storage import validation

OID = "0123456789abcdef" * 4


@given(st.text(max_size=100))
def test_trap_28_no_other_text_is_an_oid(text: str) -> None:
    """Whatever is not 64 lower-case hexadecimal digits is refused (trap-28)."""
    if len(text) == 64 and set(text) <= set("0123456789abcdef"):
        assert validation.oid(text) == text
        return
    with pytest.raises(InvalidArgument) as caught:
        validation.oid(text)
    assert caught.value.reason == "INVALID_OID"


@pytest.mark.parametrize(
    "oid",
    [
        "",
        OID[:-1],
        OID + "0",
        OID.upper(),
        OID + "\n",
        OID[:-1] + "g",
        OID[:-1] + "٣",
        "../../etc/passwd",
        "x" * 10_000,
    ],
)
def test_near_oids(oid: str) -> None:
    """Near misses are refused, with a short message."""
    with pytest.raises(InvalidArgument) as caught:
        validation.oid(oid)
    assert len(caught.value.message) < 600


@pytest.mark.parametrize(("limit", "expected"), [(0, 100), (1, 1), (1000, 1000), (1001, 1000), (2**31 - 1, 1000)])
def test_page_limit(limit: int, expected: int) -> None:
    """A page has a default size and a greatest one."""
    assert validation.page_limit(limit) == expected


@pytest.mark.parametrize("value", [0, -1, -(2**63)])
def test_repository_id(value: int) -> None:
    """A repository's id is positive; 0 is one that was not set."""
    with pytest.raises(InvalidArgument, match="repository_id: expected a positive number"):
        validation.repository_id(value)


@pytest.mark.parametrize("reason", ["", "  ", "x" * 1001, "a\0b"])
def test_removal_reason(reason: str) -> None:
    """A reason is not empty, not too long, and can be kept in the database."""
    with pytest.raises(InvalidArgument, match="reason: expected"):
        validation.removal_text("reason", reason, required=True)
    assert validation.removal_text("reason", "é" * 1000, required=True) == "é" * 1000


def test_negative_numbers() -> None:
    """Sizes, offsets, lengths and limits are not negative."""
    assert validation.not_negative("size", 2**63 - 1) == 2**63 - 1
    with pytest.raises(InvalidArgument, match="offset: expected at least 0, got -1"):
        validation.not_negative("offset", -1)
    with pytest.raises(InvalidArgument):
        validation.page_limit(-1)
