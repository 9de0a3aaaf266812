"""Permission to remove a lock."""

import pytest

from services.common.errors import InvalidArgument, PermissionDenied, Reason
from services.locks.locking.unlock_policy import check_steal, check_unlock
from services.locks.models import FORCED_BY_ADMINS, FORCED_BY_WRITERS


def _unlock(forced_unlock: str, *, writes_every_ref: bool, admin: bool, force: bool = True) -> None:
    check_unlock(
        own=False,
        owner_name="alice",
        force=force,
        forced_unlock=forced_unlock,
        writes_every_ref=writes_every_ref,
        admin=admin,
    )


@pytest.mark.parametrize("force", [False, True])
@pytest.mark.parametrize("forced_unlock", [FORCED_BY_WRITERS, FORCED_BY_ADMINS])
def test_the_owner_always_may(force: bool, forced_unlock: str) -> None:
    """One's own lock needs no force, and force on it does no harm."""
    check_unlock(
        own=True, owner_name="alice", force=force, forced_unlock=forced_unlock, writes_every_ref=False, admin=False
    )


@pytest.mark.parametrize("admin", [False, True])
@pytest.mark.parametrize("forced_unlock", [FORCED_BY_WRITERS, FORCED_BY_ADMINS])
def test_without_force_no_one_else_may(admin: bool, forced_unlock: str) -> None:
    """An unlock of another's lock without force is refused and names the owner, so that users can ask (trap-22)."""
    with pytest.raises(PermissionDenied, match="alice") as caught:
        _unlock(forced_unlock, writes_every_ref=True, admin=admin, force=False)
    assert caught.value.reason == Reason.LOCK_NOT_OWNED
    # Advice that leads to the next refusal is worse than none.
    may_force = admin or forced_unlock == FORCED_BY_WRITERS
    assert ("`git lfs unlock --force` removes it" in caught.value.message) is may_force


def test_force_is_for_writers_or_for_admins() -> None:
    """A repository may keep force to its admins."""
    _unlock(FORCED_BY_WRITERS, writes_every_ref=True, admin=False)
    _unlock(FORCED_BY_ADMINS, writes_every_ref=True, admin=True)
    with pytest.raises(PermissionDenied, match="alice") as caught:
        _unlock(FORCED_BY_ADMINS, writes_every_ref=True, admin=False)
    assert caught.value.reason == Reason.FORCE_NOT_ALLOWED


@pytest.mark.parametrize("forced_unlock", [FORCED_BY_WRITERS, FORCED_BY_ADMINS])
def test_force_is_not_for_writers_of_some_refs(forced_unlock: str) -> None:
    """The ref is what the client says, so whoever may write one could remove the lock of anybody."""
    with pytest.raises(PermissionDenied, match=r"belongs to alice; only .* every ref can remove it by force") as caught:
        _unlock(forced_unlock, writes_every_ref=False, admin=False)
    assert caught.value.reason == Reason.FORCE_NOT_ALLOWED


def _steal(forced_unlock: str, *, writes_every_ref: bool, admin: bool, stale: bool = False, own: bool = False) -> None:
    check_steal(
        own=own,
        owner_name="alice",
        stale=stale,
        forced_unlock=forced_unlock,
        writes_every_ref=writes_every_ref,
        admin=admin,
    )


def test_a_lock_is_stolen_by_the_rights_of_force() -> None:
    """A user who may remove a lock by force may steal it too."""
    _steal(FORCED_BY_WRITERS, writes_every_ref=True, admin=False)
    _steal(FORCED_BY_ADMINS, writes_every_ref=True, admin=True)
    for forced_unlock, writes_every_ref in ((FORCED_BY_ADMINS, True), (FORCED_BY_WRITERS, False)):
        with pytest.raises(PermissionDenied, match=r"belongs to alice; only .* every ref can steal it") as caught:
            _steal(forced_unlock, writes_every_ref=writes_every_ref, admin=False)
        assert caught.value.reason == Reason.FORCE_NOT_ALLOWED


@pytest.mark.parametrize("forced_unlock", [FORCED_BY_WRITERS, FORCED_BY_ADMINS])
def test_a_stale_lock_is_anybodys(forced_unlock: str) -> None:
    """The owner has forgotten a stale lock, so a thief needs no right beyond that to push."""
    _steal(forced_unlock, writes_every_ref=False, admin=False, stale=True)


@pytest.mark.parametrize("stale", [False, True])
def test_ones_own_lock_is_not_stolen(stale: bool) -> None:
    """It is refused whatever the rights, because it would only write a name twice into the history."""
    with pytest.raises(InvalidArgument, match="your own"):
        _steal(FORCED_BY_WRITERS, writes_every_ref=True, admin=True, stale=stale, own=True)
