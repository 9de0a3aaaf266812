"""The unlock policy: decides whether a user may remove or steal a lock.

It implements docs/protocol.md, "Delete lock" and "Steal lock".
"""

from services.common.errors import InvalidArgument, PermissionDenied, Reason
from services.locks.models import FORCED_BY_ADMINS


def check_unlock(
    *, own: bool, owner_name: str, force: bool, forced_unlock: str, writes_every_ref: bool, admin: bool
) -> None:
    """Raise `PermissionDenied` unless a user with push access may remove the lock.

    The owner always may. Any other user needs `force` (LOCK_NOT_OWNED without it) and a grant to write every ref; if
    the repository reserves force for admins, the role admin for every ref (FORCE_NOT_ALLOWED without it). A grant for
    some refs is not enough: the client names the ref, so that such a grant would let its user remove any lock.
    """
    if own:
        return
    if not force:
        may_force = admin or forced_unlock != FORCED_BY_ADMINS
        hint = "`git lfs unlock --force` removes it" if may_force else "only its owner and admins may remove it"
        raise PermissionDenied(Reason.LOCK_NOT_OWNED, f"the lock belongs to {owner_name}; {hint}")
    _check_force("remove it by force", owner_name, forced_unlock, writes_every_ref=writes_every_ref, admin=admin)


def check_steal(
    *, own: bool, owner_name: str, stale: bool, forced_unlock: str, writes_every_ref: bool, admin: bool
) -> None:
    """Raise `PermissionDenied` (FORCE_NOT_ALLOWED) unless a user with push access may steal the lock.

    Every user may steal a stale lock; any other lock, the users who may remove it by force. A user's own lock raises
    `InvalidArgument` (INVALID_FIELD), because no right and no other state of the lock would make it another user's.
    """
    if own:
        raise InvalidArgument(Reason.INVALID_FIELD, "id: expected the lock of another user, got your own")
    if not stale:
        _check_force("steal it", owner_name, forced_unlock, writes_every_ref=writes_every_ref, admin=admin)


def _check_force(what: str, owner_name: str, forced_unlock: str, *, writes_every_ref: bool, admin: bool) -> None:
    if not admin and forced_unlock == FORCED_BY_ADMINS:
        raise PermissionDenied(
            Reason.FORCE_NOT_ALLOWED,
            f"the lock belongs to {owner_name}; only an admin here who may write every ref can {what}",
        )
    if not (writes_every_ref or admin):
        raise PermissionDenied(
            Reason.FORCE_NOT_ALLOWED, f"the lock belongs to {owner_name}; only who may write every ref can {what}"
        )
