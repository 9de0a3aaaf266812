"""Who may remove a lock (protocol: "Delete lock")."""

from services.common.errors import PermissionDenied, Reason
from services.locks.models import FORCED_BY_ADMINS


def check_unlock(*, own: bool, owner_name: str, force: bool, forced_unlock: str, admin: bool) -> None:
    """Raise `PermissionDenied` unless a user with push access may remove the lock.

    Its owner always may. Others need `force` (LOCK_NOT_OWNED); and where the repository keeps that to its admins, the
    role admin too (FORCE_NOT_ALLOWED).
    """
    if own:
        return
    may_force = admin or forced_unlock != FORCED_BY_ADMINS
    if not force:
        hint = "`git lfs unlock --force` removes it" if may_force else "only its owner and admins may remove it"
        raise PermissionDenied(Reason.LOCK_NOT_OWNED, f"the lock belongs to {owner_name}; {hint}")
    if not may_force:
        raise PermissionDenied(
            Reason.FORCE_NOT_ALLOWED,
            f"the lock belongs to {owner_name}, and only admins of this repository may remove it by force",
        )
