"""The limit of a page of locks, and pages of locks in JSON."""

import pytest
from google.protobuf.timestamp_pb2 import Timestamp
from hypothesis import given
from hypothesis import strategies as st
from towpath.locks.v1 import lock_service_pb2 as pb

from services.common.errors import InvalidArgument, ServiceError
from services.facade.locks import coerce_limit, list_json, parse_limit, verification_json
from services.facade.web.schemas import LockPage, LockVerification

_PATHS = ["art/stone.tif", 'art/"quoted"\n.tif', "art/\u00e9t\u00e9.tif"]


def _lock(path: str, owner: str = "alice") -> pb.Lock:
    return pb.Lock(id="7", path=path, locked_at=Timestamp(seconds=1_777_636_800), owner_id=1, owner_name=owner)


def test_a_page() -> None:
    """Each lock is on it, in order, and a cursor only where a page follows."""
    locks = [_lock(path) for path in _PATHS]
    told = list_json(pb.ListLocksResponse(locks=locks, next_cursor="7"))
    page = LockPage.model_validate_json(told)
    assert [lock.path for lock in page.locks] == _PATHS
    assert page.next_cursor == "7"
    assert told.count(b'"locked_at":"2026-05-01T12:00:00Z"') == len(locks)
    last = LockPage.model_validate_json(list_json(pb.ListLocksResponse(locks=locks)))
    assert last.next_cursor is None


def test_sides() -> None:
    """Both are there, even where nothing is on them (client-4)."""
    assert verification_json(pb.VerifyLocksResponse()) == b'{"ours":[],"theirs":[]}'
    reply = pb.VerifyLocksResponse(ours=[_lock("a")], theirs=[_lock("b", "bob")])
    page = LockVerification.model_validate_json(verification_json(reply))
    assert [(lock.path, lock.owner.name) for lock in page.ours] == [("a", "alice")]
    assert [(lock.path, lock.owner.name) for lock in page.theirs] == [("b", "bob")]


def test_what_lacks_an_owner_is_not_told() -> None:
    """Without a name clients crash (client-4)."""
    with pytest.raises(ServiceError, match="lacks"):
        list_json(pb.ListLocksResponse(locks=[_lock("a", "")]))


@pytest.mark.parametrize(
    ("text", "limit"), [("5", 5), ("+5", 5), ("007", 7), ("0", 0), ("-1", -1), ("-0", 0), ("9" * 5000, 2**31 - 1)]
)
def test_a_limit_is_a_whole_number(text: str, limit: int) -> None:
    """However long it is."""
    assert parse_limit(text) == limit


@pytest.mark.parametrize("text", ["abc", "1.5", "1e3", " 1", "", "\u0661", "--1", "0x10"])
def test_any_other_limit_is_refused(text: str) -> None:
    """The message names the field."""
    with pytest.raises(InvalidArgument, match="limit"):
        parse_limit(text)


@pytest.mark.parametrize(
    ("asked", "limit"), [(None, 0), (0, 0), (-1, 0), (7, 7), (2**31, 2**31 - 1), (10**30, 2**31 - 1)]
)
def test_less_than_one_is_the_default_and_too_many_are_coerced(asked: int | None, limit: int) -> None:
    """0 stands for the default of the lock service."""
    assert coerce_limit(asked) == limit


@given(st.text(max_size=20))
def test_no_text_is_too_strange(text: str) -> None:
    """It is a number that fits the call, or it is refused."""
    try:
        limit = coerce_limit(parse_limit(text))
    except InvalidArgument:
        return
    assert 0 <= limit < 2**31
