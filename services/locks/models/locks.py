"""Standing and released locks, and their numbers."""

from datetime import datetime

from sqlalchemy import BigInteger, Boolean, Column, Index, LargeBinary, SmallInteger, UniqueConstraint, text
from sqlmodel import Field

from services.locks.models.base import (
    Record,
    flag_column,
    identity_column,
    key_column,
    moment_column,
    number_column,
    reference_column,
    text_column,
)


class Lock(Record, table=True):
    """A standing lock. The unique constraint ensures that a path has at most one owner in each space.

    `path_hash` is the hash of the space and the path, see `locking.paths`. `stolen_from` is the id of the released lock
    that this lock has replaced. `ref` is the one for which it was created, or empty.
    """

    __tablename__ = "locks"
    __table_args__ = (
        UniqueConstraint("repository_id", "path_hash"),
        Index(None, "repository_id", "id"),
        Index(None, "repository_id", "owner_id", "id"),
        Index("ix_locks_repository_id_path", "repository_id", text('"left"(path, 255)'), "id"),
        Index("ix_locks_repository_id_owner_id_path", "repository_id", "owner_id", text('"left"(path, 255)'), "id"),
        Index(None, "owner_id"),
    )

    id: int = Field(sa_column=identity_column())
    repository_id: int = Field(sa_column=reference_column("repositories.id", on_delete="RESTRICT"))
    path: str = Field(sa_column=text_column())
    path_hash: bytes = Field(sa_column=Column(LargeBinary, nullable=False))
    owner_id: int = Field(sa_column=reference_column("users.id", on_delete="RESTRICT"))
    locked_at: datetime = Field(sa_column=moment_column())
    idempotency_key: str = Field(sa_column=text_column())
    note: str = Field(default="", sa_column=text_column(empty=True))
    space: str = Field(default="", sa_column=text_column(empty=True))
    stolen_from: int | None = Field(default=None, sa_column=number_column(nullable=True))
    ref: str = Field(default="", sa_column=text_column(empty=True))


class ReleasedLock(Record, table=True):
    """A released lock. It stores the names of its users, and outlives them and its repository.

    A `stolen` lock was released to make way for a lock of the user who released it.
    """

    __tablename__ = "released_locks"
    __table_args__ = (
        Index(None, "repository_id", "id"),
        Index(None, "repository_id", "path_hash", "id"),
        Index("ix_released_locks_by_time", "repository_id", "released_at", "id"),
        Index("ix_released_locks_by_owner", "repository_id", "owner_name", "released_at", "id"),
        Index(
            "ix_released_locks_in_spaces",
            "repository_id",
            text('"left"(path, 255)'),
            postgresql_where=text("space <> ''"),
        ),
    )

    id: int = Field(sa_column=identity_column())
    lock_id: int = Field(sa_column=Column(BigInteger, nullable=False, unique=True))
    repository_id: int = Field(sa_column=number_column())
    path: str = Field(sa_column=text_column())
    path_hash: bytes = Field(sa_column=Column(LargeBinary, nullable=False))
    owner_id: int = Field(sa_column=number_column())
    owner_name: str = Field(sa_column=text_column())
    locked_at: datetime = Field(sa_column=moment_column())
    released_at: datetime = Field(sa_column=moment_column(now=True))
    released_by_id: int = Field(sa_column=number_column())
    released_by: str = Field(sa_column=text_column())
    forced: bool = Field(sa_column=Column(Boolean, nullable=False))
    idempotency_key: str = Field(sa_column=text_column())
    note: str = Field(default="", sa_column=text_column(empty=True))
    space: str = Field(default="", sa_column=text_column(empty=True))
    reason: str = Field(default="", sa_column=text_column(empty=True))
    stolen: bool = Field(default=False, sa_column=flag_column())


class RepositoryLockCount(Record, table=True):
    """A stripe of the number of locks that stand in a repository; the sum of all stripes is that number.

    The sum of `changes` grows with each change of the locks. Triggers maintain this table and that of `UserLockCount`;
    see the migrations 0004 and 0007.
    """

    __tablename__ = "locks_per_repository"

    repository_id: int = Field(sa_column=key_column("repositories.id"))
    stripe: int = Field(sa_column=Column(SmallInteger, primary_key=True, autoincrement=False))
    count: int = Field(sa_column=number_column())
    changes: int = Field(sa_column=Column(BigInteger, nullable=False, server_default="0"))


class UserLockCount(Record, table=True):
    """A stripe of the number of locks that a user owns in a repository."""

    __tablename__ = "locks_per_user"
    __table_args__ = (Index(None, "user_id"),)

    repository_id: int = Field(sa_column=key_column("repositories.id"))
    user_id: int = Field(sa_column=key_column("users.id"))
    stripe: int = Field(sa_column=Column(SmallInteger, primary_key=True, autoincrement=False))
    count: int = Field(sa_column=number_column())
