"""The tables of quotas: limits, counters that triggers keep, and reservations of announced uploads."""

import datetime

from sqlalchemy import ARRAY, BigInteger, Column, DateTime, Index, SmallInteger, String, Table, text
from sqlmodel import Field

from services.storage.index.models import StorageModel


def _id() -> int:
    column: int = Field(primary_key=True, sa_type=BigInteger, sa_column_kwargs={"autoincrement": False})
    return column


def _bytes() -> int:
    column: int = Field(sa_type=BigInteger)
    return column


class RepositoryLimits(StorageModel, table=True):
    """The limits of a repository: NULL for the default of the settings, 0 for no limit."""

    __tablename__ = "repository_limits"

    repository_id: int = _id()
    quota_bytes: int | None = Field(default=None, sa_type=BigInteger)
    """The bytes that it may hold."""
    bandwidth_bytes: int | None = Field(default=None, sa_type=BigInteger)
    """The bytes that it may move on one UTC day."""


class UserLimits(StorageModel, table=True):
    """The quota of a user: the bytes of the objects that the user has brought, 0 for any number."""

    __tablename__ = "user_limits"

    user_id: int = _id()
    quota_bytes: int = _bytes()


class GroupLimits(StorageModel, table=True):
    """The quota that each member of a group has who has none alone, 0 for any number."""

    __tablename__ = "group_limits"

    group_id: int = _id()
    quota_bytes: int = _bytes()


class LimitedGroupMember(StorageModel, table=True):
    """A member of a group that has a quota, as the lock service has told last."""

    __tablename__ = "limited_group_members"

    group_id: int = Field(
        primary_key=True,
        sa_type=BigInteger,
        foreign_key="storage.group_limits.group_id",
        ondelete="CASCADE",
        sa_column_kwargs={"autoincrement": False},
    )
    user_id: int = _id()


USAGE_DELTAS = Table(
    "usage_deltas",
    StorageModel.metadata,
    Column("repository_id", BigInteger, nullable=False),
    Column("user_id", BigInteger),
    Column("object_count", BigInteger, nullable=False),
    Column("object_bytes", BigInteger, nullable=False),
)
"""Changes of what a repository holds, and of what a user has brought, that are not in the totals yet.

Triggers add a row for each statement, repository and user. The sum of the totals and these rows is always exact.
"""


class UsageTotal(StorageModel, table=True):
    """The objects that a repository holds, up to the rows of `USAGE_DELTAS`."""

    __tablename__ = "usage_totals"

    repository_id: int = _id()
    object_count: int = _bytes()
    object_bytes: int = _bytes()


class UserTotal(StorageModel, table=True):
    """The held objects that a user has brought, up to the rows of `USAGE_DELTAS`."""

    __tablename__ = "user_totals"

    user_id: int = _id()
    object_count: int = _bytes()
    object_bytes: int = _bytes()


class Reservation(StorageModel, table=True):
    """Room in a quota that is kept for an announced or running upload; it counts until it expires.

    A reservation of an object that the repository holds counts nothing. The table is unlogged because an upload whose
    reservation is lost reserves again.
    """

    __tablename__ = "reservations"
    __table_args__ = (
        Index("reservations_user_id", "user_id", postgresql_where=text("user_id IS NOT NULL")),
        {"prefixes": ["UNLOGGED"]},
    )

    repository_id: int = _id()
    oid: str = Field(primary_key=True, sa_type=String(64, collation="C"))
    size: int = _bytes()
    user_id: int | None = Field(default=None, sa_type=BigInteger)
    expires_at: datetime.datetime = Field(sa_type=DateTime(timezone=True))
    uploads: list[int] = Field(sa_type=ARRAY(BigInteger))
    """The ids of the running uploads that need the room, each of which may be another process'."""


class DailyUsage(StorageModel, table=True):
    """The objects that a repository held at the end of a UTC day; days without a change have no row."""

    __tablename__ = "daily_usage"

    repository_id: int = _id()
    day: datetime.date = Field(primary_key=True)
    object_count: int = _bytes()
    object_bytes: int = _bytes()


class QuotaLevel(StorageModel, table=True):
    """A repository that uses most of its quota: level 1 from 80 % on, level 2 once it is full or an upload was refused.

    `is_told` says that the lock service has told of it.
    """

    __tablename__ = "quota_levels"

    repository_id: int = _id()
    level: int = Field(sa_type=SmallInteger)
    used_bytes: int = _bytes()
    quota_bytes: int = _bytes()
    is_told: bool
    reached_at: datetime.datetime = Field(sa_type=DateTime(timezone=True))
    refused_at: datetime.datetime | None = Field(default=None, sa_type=DateTime(timezone=True))
