"""The gRPC servicer of AdminService, composed of all its handlers."""

from services.locks.api.admin.forges import ForgeHandlers
from services.locks.api.admin.garbage import GarbageHandlers
from services.locks.api.admin.grants import GrantHandlers
from services.locks.api.admin.groups import GroupHandlers
from services.locks.api.admin.hooks import HookHandlers
from services.locks.api.admin.issuers import IssuerHandlers
from services.locks.api.admin.limits import LimitHandlers
from services.locks.api.admin.locks import LockHandlers
from services.locks.api.admin.objects import ObjectHandlers
from services.locks.api.admin.records import RecordHandlers
from services.locks.api.admin.repositories import RepositoryHandlers
from services.locks.api.admin.ssh_keys import SshKeyHandlers
from services.locks.api.admin.stores import StoreHandlers
from services.locks.api.admin.tokens import TokenHandlers
from services.locks.api.admin.transfers import TransferHandlers
from services.locks.api.admin.users import UserHandlers


class AdminServicer(
    UserHandlers,
    TokenHandlers,
    SshKeyHandlers,
    RepositoryHandlers,
    ForgeHandlers,
    GrantHandlers,
    GroupHandlers,
    LockHandlers,
    ObjectHandlers,
    TransferHandlers,
    GarbageHandlers,
    LimitHandlers,
    StoreHandlers,
    HookHandlers,
    IssuerHandlers,
    RecordHandlers,
):
    """Answers the calls of AdminService; every handler admits only administrators."""
