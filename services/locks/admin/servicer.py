"""AdminService over gRPC: all its handlers in one."""

from services.locks.admin.grants import GrantHandlers
from services.locks.admin.locks import LockHandlers
from services.locks.admin.objects import ObjectHandlers
from services.locks.admin.repositories import RepositoryHandlers
from services.locks.admin.stores import StoreHandlers
from services.locks.admin.tokens import TokenHandlers
from services.locks.admin.users import UserHandlers


class AdminServicer(
    UserHandlers, TokenHandlers, RepositoryHandlers, GrantHandlers, LockHandlers, ObjectHandlers, StoreHandlers
):
    """Answers the calls of AdminService; each handler lets only administrators in."""
