"""The unlock policy: decides whether a user may remove a lock (docs/protocol.md, "Delete lock")."""

from services.common.errors import PermissionDenied, Reason
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
    may_force = admin or forced_unlock != FORCED_BY_ADMINS
    if not force:
        hint = "`git lfs unlock --force` removes it" if may_force else "only its owner and admins may remove it"
        raise PermissionDenied(Reason.LOCK_NOT_OWNED, f"the lock belongs to {owner_name}; {hint}")
    if not may_force:
        raise PermissionDenied(
            Reason.FORCE_NOT_ALLOWED,
            f"the lock belongs to {owner_name}; only an admin here who may write every ref can remove it by force",
        )
    if not (writes_every_ref or admin):
        raise PermissionDenied(
            Reason.FORCE_NOT_ALLOWED,
            f"the lock belongs to {owner_name}; only who may write every ref can remove it by force",
        )
