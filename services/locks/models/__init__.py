"""The tables of the lock service, in the Postgres schema `locks`; the connection's search path names that schema."""

from pathlib import Path

from services.database.versions import Schema
from services.locks.models.access import (
    FORCED_BY_ADMINS,
    FORCED_BY_WRITERS,
    FailedLogin,
    Grant,
    RateState,
    RemovedRepository,
    Repository,
    RepositoryAlias,
    RevokedToken,
    Token,
    TokenUse,
    User,
)
from services.locks.models.base import Record
from services.locks.models.events import Hook, HookDelivery, LockEvent
from services.locks.models.identity import (
    Forge,
    ForgeLookups,
    Group,
    GroupGrant,
    GroupMember,
    Identity,
    Issuer,
    IssuerGrant,
    IssuerGroup,
    SshKey,
    TokenGrant,
    TokenGroup,
    TokenRole,
)
from services.locks.models.locks import Lock, ReleasedLock, RepositoryLockCount, UserLockCount
from services.locks.models.records import AuditEvent, Refusal

__all__ = [
    "FORCED_BY_ADMINS",
    "FORCED_BY_WRITERS",
    "SCHEMA",
    "AuditEvent",
    "FailedLogin",
    "Forge",
    "ForgeLookups",
    "Grant",
    "Group",
    "GroupGrant",
    "GroupMember",
    "Hook",
    "HookDelivery",
    "Identity",
    "Issuer",
    "IssuerGrant",
    "IssuerGroup",
    "Lock",
    "LockEvent",
    "RateState",
    "Refusal",
    "ReleasedLock",
    "RemovedRepository",
    "Repository",
    "RepositoryAlias",
    "RepositoryLockCount",
    "RevokedToken",
    "SshKey",
    "Token",
    "TokenGrant",
    "TokenGroup",
    "TokenRole",
    "TokenUse",
    "User",
    "UserLockCount",
]

SCHEMA = Schema(
    name="locks",
    metadata=Record.metadata,
    versions=Path(__file__).parents[1] / "migrations" / "versions",
)
"""The schema that `services.database.migrations` creates and migrates."""
