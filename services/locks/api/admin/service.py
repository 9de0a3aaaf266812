"""AdminService over gRPC: all its handlers in one."""

from services.locks.api.admin.grants import GrantHandlers
from services.locks.api.admin.locks import LockHandlers
from services.locks.api.admin.objects import ObjectHandlers
from services.locks.api.admin.repositories import RepositoryHandlers
from services.locks.api.admin.stores import StoreHandlers
from services.locks.api.admin.tokens import TokenHandlers
from services.locks.api.admin.users import UserHandlers


class AdminServicer(
    UserHandlers, TokenHandlers, RepositoryHandlers, GrantHandlers, LockHandlers, ObjectHandlers, StoreHandlers
):
    """Answers the calls of AdminService; each handler lets only administrators in."""
