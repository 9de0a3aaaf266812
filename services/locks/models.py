"""The tables of the lock service, in the Postgres schema `locks`; the connection's search path names that schema.

Ids are 64-bit identities and never reused. Names compare and sort by their bytes, whatever the database's collation.
"""

from datetime import datetime
from pathlib import Path
from typing import ClassVar

from sqlalchemy import (
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    DateTime,
    ForeignKey,
    Identity,
    Index,
    LargeBinary,
    MetaData,
    SmallInteger,
    Table,
    Text,
    UniqueConstraint,
    func,
    text,
)
from sqlalchemy.dialects.postgresql import ARRAY
from sqlalchemy.orm import registry
from sqlmodel import Field, SQLModel

from services.database.versions import Schema

_NAMES_OF_CONSTRAINTS = {
    "pk": "pk_%(table_name)s",
    "uq": "uq_%(table_name)s_%(column_0_N_name)s",
    "fk": "fk_%(table_name)s_%(column_0_name)s",
    "ix": "ix_%(table_name)s_%(column_0_N_name)s",
    "ck": "ck_%(table_name)s_%(constraint_name)s",
}


FORCED_BY_WRITERS = "writers"
FORCED_BY_ADMINS = "admins"


class Record(SQLModel, registry=registry(metadata=MetaData(naming_convention=_NAMES_OF_CONSTRAINTS))):
    """A row of one of the tables."""

    __table__: ClassVar[Table]


def _identity() -> Column[int]:
    return Column(BigInteger, Identity(always=True), primary_key=True)


def _reference(target: str, *, on_delete: str) -> Column[int]:
    return Column(BigInteger, ForeignKey(target, ondelete=on_delete), nullable=False)


def _key_of(target: str) -> Column[int]:
    return Column(BigInteger, ForeignKey(target, ondelete="CASCADE"), primary_key=True, autoincrement=False)


def _text(*, unique: bool = False) -> Column[str]:
    return Column(Text(collation="C"), nullable=False, unique=unique)


def _moment(*, now: bool = False, nullable: bool = False) -> Column[datetime]:
    return Column(DateTime(timezone=True), nullable=nullable, server_default=func.now() if now else None)


class User(Record, table=True):
    """A person or a program that has tokens."""

    __tablename__ = "users"

    id: int = Field(sa_column=_identity())
    name: str = Field(sa_column=_text(unique=True))
    administrator: bool = Field(sa_column=Column(Boolean, nullable=False))
    created_at: datetime = Field(sa_column=_moment(now=True))


class Token(Record, table=True):
    """A credential; only the SHA-256 of its secret is stored."""

    __tablename__ = "tokens"
    __table_args__ = (UniqueConstraint("user_id", "name"),)

    id: int = Field(sa_column=_identity())
    user_id: int = Field(sa_column=_reference("users.id", on_delete="CASCADE"))
    name: str = Field(sa_column=_text())
    token_hash: bytes = Field(sa_column=Column(LargeBinary, nullable=False, unique=True))
    created_at: datetime = Field(sa_column=_moment(now=True))
    expires_at: datetime | None = Field(sa_column=_moment(nullable=True))


class TokenUse(Record, table=True):
    """The last use of a token, in a separate table because an update of `tokens` counts as a revocation."""

    __tablename__ = "token_uses"

    token_id: int = Field(sa_column=_key_of("tokens.id"))
    used_at: datetime = Field(sa_column=_moment())


class RevokedToken(Record, table=True):
    """A revoked token, retained for a while so that its refusal can say why; see `access.tokens`."""

    __tablename__ = "revoked_tokens"
    __table_args__ = (Index(None, "user_id"), Index(None, "revoked_at"))

    token_hash: bytes = Field(sa_column=Column(LargeBinary, primary_key=True))
    user_id: int = Field(sa_column=_reference("users.id", on_delete="CASCADE"))
    name: str = Field(sa_column=_text())
    revoked_at: datetime = Field(sa_column=_moment(now=True))


class Repository(Record, table=True):
    """A repository; `forced_unlock` names the users that may remove the locks of others: `writers` or `admins`."""

    __tablename__ = "repositories"
    __table_args__ = (CheckConstraint("forced_unlock IN ('writers', 'admins')", name="forced_unlock"),)

    id: int = Field(sa_column=_identity())
    name: str = Field(sa_column=_text(unique=True))
    public: bool = Field(sa_column=Column(Boolean, nullable=False))
    forced_unlock: str = Field(sa_column=_text())
    created_at: datetime = Field(sa_column=_moment(now=True))


class RemovedRepository(Record, table=True):
    """A removed repository, recorded until the storage service has removed its objects too."""

    __tablename__ = "removed_repositories"

    id: int = Field(sa_column=Column(BigInteger, primary_key=True, autoincrement=False))
    name: str = Field(sa_column=_text())
    public: bool = Field(sa_column=Column(Boolean, nullable=False))
    forced_unlock: str = Field(sa_column=_text())
    created_at: datetime = Field(sa_column=_moment())


class Grant(Record, table=True):
    """A user's role in a repository; ref patterns limit the refs that the user may write."""

    __tablename__ = "grants"
    __table_args__ = (
        UniqueConstraint("user_id", "repository_id", "role"),
        CheckConstraint("role IN ('read', 'write', 'admin')", name="role"),
        Index(None, "repository_id"),
    )

    id: int = Field(sa_column=_identity())
    user_id: int = Field(sa_column=_reference("users.id", on_delete="CASCADE"))
    repository_id: int = Field(sa_column=_reference("repositories.id", on_delete="CASCADE"))
    role: str = Field(sa_column=_text())
    ref_patterns: list[str] = Field(sa_column=Column(ARRAY(Text), nullable=False))
    created_at: datetime = Field(sa_column=_moment(now=True))


class Lock(Record, table=True):
    """A standing lock. The unique constraint ensures that a path has at most one owner."""

    __tablename__ = "locks"
    __table_args__ = (
        UniqueConstraint("repository_id", "path_hash"),
        Index(None, "repository_id", "id"),
        Index(None, "repository_id", "owner_id", "id"),
        Index("ix_locks_repository_id_path", "repository_id", text('"left"(path, 255)'), "id"),
        Index(None, "owner_id"),
    )

    id: int = Field(sa_column=_identity())
    repository_id: int = Field(sa_column=_reference("repositories.id", on_delete="RESTRICT"))
    path: str = Field(sa_column=_text())
    path_hash: bytes = Field(sa_column=Column(LargeBinary, nullable=False))
    owner_id: int = Field(sa_column=_reference("users.id", on_delete="RESTRICT"))
    locked_at: datetime = Field(sa_column=_moment())
    idempotency_key: str = Field(sa_column=_text())


class ReleasedLock(Record, table=True):
    """A released lock. It stores the names of its users, and outlives them and its repository."""

    __tablename__ = "released_locks"
    __table_args__ = (
        Index(None, "repository_id", "id"),
        Index(None, "repository_id", "path_hash", "id"),
    )

    id: int = Field(sa_column=_identity())
    lock_id: int = Field(sa_column=Column(BigInteger, nullable=False, unique=True))
    repository_id: int = Field(sa_column=Column(BigInteger, nullable=False))
    path: str = Field(sa_column=_text())
    path_hash: bytes = Field(sa_column=Column(LargeBinary, nullable=False))
    owner_id: int = Field(sa_column=Column(BigInteger, nullable=False))
    owner_name: str = Field(sa_column=_text())
    locked_at: datetime = Field(sa_column=_moment())
    released_at: datetime = Field(sa_column=_moment(now=True))
    released_by_id: int = Field(sa_column=Column(BigInteger, nullable=False))
    released_by: str = Field(sa_column=_text())
    forced: bool = Field(sa_column=Column(Boolean, nullable=False))
    idempotency_key: str = Field(sa_column=_text())


class RepositoryLockCount(Record, table=True):
    """A stripe of the number of locks that stand in a repository; the sum of all stripes is that number.

    The sum of `changes` grows with each change of the locks. Triggers maintain this table and that of `UserLockCount`;
    see the migrations 0004 and 0006.
    """

    __tablename__ = "locks_per_repository"

    repository_id: int = Field(sa_column=_key_of("repositories.id"))
    stripe: int = Field(sa_column=Column(SmallInteger, primary_key=True, autoincrement=False))
    count: int = Field(sa_column=Column(BigInteger, nullable=False))
    changes: int = Field(sa_column=Column(BigInteger, nullable=False, server_default="0"))


class UserLockCount(Record, table=True):
    """A stripe of the number of locks that a user owns in a repository."""

    __tablename__ = "locks_per_user"
    __table_args__ = (Index(None, "user_id"),)

    repository_id: int = Field(sa_column=_key_of("repositories.id"))
    user_id: int = Field(sa_column=_key_of("users.id"))
    stripe: int = Field(sa_column=Column(SmallInteger, primary_key=True, autoincrement=False))
    count: int = Field(sa_column=Column(BigInteger, nullable=False))


class FailedLogin(Record, table=True):
    """The debt of an address for bad credentials; see `failed_logins`.

    The table is unlogged because its rows are written often, are worth little, and expire within minutes.
    """

    __tablename__ = "failed_logins"
    __table_args__ = (Index(None, "debt_until"), {"prefixes": ["UNLOGGED"]})

    address: str = Field(sa_column=Column(Text(collation="C"), primary_key=True))
    debt_until: datetime = Field(sa_column=_moment())


SCHEMA = Schema(
    name="locks",
    metadata=Record.metadata,
    versions=Path(__file__).parent / "migrations" / "versions",
)
"""The schema that `services.database.migrations` creates and migrates."""
