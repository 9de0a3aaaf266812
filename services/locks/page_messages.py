"""Pages of locks as messages. One that was asked for before, and did not change since, is not put together again.

What it holds is read each time all the same: what is saved is the work of saying it.
"""

from functools import lru_cache

from towpath.locks.v1 import lock_service_pb2 as pb

from services.locks.lock_pages import LockPage
from services.locks.messages import lock_message

_REMEMBERED = 32
# A longer one is asked for by who reads all of them, each once.
_MOST_LOCKS = 200
_MOST_CHARACTERS = 32 * 1024


def list_response(page: LockPage) -> pb.ListLocksResponse:
    """Return a page of locks, which its receiver must not change."""
    return (_listed if _is_short(page) else _listed.__wrapped__)(page)


def verify_response(page: LockPage, user_id: int) -> pb.VerifyLocksResponse:
    """Return a page of locks, split into those of the user and of others; its receiver must not change it."""
    return (_verified if _is_short(page) else _verified.__wrapped__)(page, user_id)


def _is_short(page: LockPage) -> bool:
    return len(page.locks) <= _MOST_LOCKS and sum(len(lock.path) for lock in page.locks) <= _MOST_CHARACTERS


@lru_cache(maxsize=_REMEMBERED)
def _listed(page: LockPage) -> pb.ListLocksResponse:
    return pb.ListLocksResponse(locks=map(lock_message, page.locks), next_cursor=page.next_cursor)


@lru_cache(maxsize=_REMEMBERED)
def _verified(page: LockPage, user_id: int) -> pb.VerifyLocksResponse:
    response = pb.VerifyLocksResponse(next_cursor=page.next_cursor)
    for lock in page.locks:
        side = response.ours if lock.owner_id == user_id else response.theirs
        side.append(lock_message(lock))
    return response
