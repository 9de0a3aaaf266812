"""Pages of locks as messages, put together or remembered."""

from datetime import UTC, datetime

import pytest

from services.locks.lock_pages import LockPage
from services.locks.lock_table import StandingLock
from services.locks.page_messages import list_response, verify_response

_ALICE, _BOB = 1, 2
_THEN = datetime(2026, 5, 1, 12, tzinfo=UTC)


def _page(*owners: int, first: int = 1, next_cursor: str = "") -> LockPage:
    locks = (
        StandingLock(first + number, f"art/{number}", _THEN, owner, f"u{owner}") for number, owner in enumerate(owners)
    )
    return LockPage(tuple(locks), next_cursor)


@pytest.mark.parametrize("length", [0, 1, 100, 500])
def test_all_locks_of_a_page_are_told(length: int) -> None:
    """However many, and as often as it is asked for."""
    page = _page(*[_ALICE] * length, next_cursor="7")
    for _ in range(2):
        response = list_response(page)
        assert [(lock.id, lock.path) for lock in response.locks] == [(str(one.id), one.path) for one in page.locks]
        assert response.next_cursor == "7"


@pytest.mark.parametrize("length", [1, 200])
def test_each_user_has_their_own_sides(length: int) -> None:
    """A page that one has asked for is another one for the next, and for who has no lock at all."""
    page = _page(*[_ALICE, _BOB, _BOB] * length)
    for user, ours, theirs in [(_ALICE, 1, 2), (_BOB, 2, 1), (3, 0, 3), (_ALICE, 1, 2)]:
        response = verify_response(page, user)
        assert (len(response.ours), len(response.theirs)) == (ours * length, theirs * length)
        assert {lock.owner_id for lock in response.ours} <= {user}
        assert user not in {lock.owner_id for lock in response.theirs}


@pytest.mark.parametrize(
    "changed",
    [
        _page(_ALICE),
        _page(_ALICE, _BOB, _BOB),
        _page(_ALICE, _ALICE),
        _page(_ALICE, _BOB, first=2),
        _page(_ALICE, _BOB, next_cursor="2"),
    ],
)
def test_a_page_that_changed_is_another(changed: LockPage) -> None:
    """One lock less, one more, another owner, the same path locked anew, or a page after it."""
    before = list_response(_page(_ALICE, _BOB)).SerializeToString()
    assert list_response(changed).SerializeToString() != before
    assert list_response(_page(_ALICE, _BOB)).SerializeToString() == before
