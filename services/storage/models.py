"""The tables of the storage service."""

import datetime
from typing import ClassVar

from sqlalchemy import BigInteger, CheckConstraint, DateTime, Index, MetaData, String, func, text
from sqlmodel import Field, SQLModel

SCHEMA_NAME = "storage"


class StorageModel(SQLModel):
    """What the tables of this service share: their own metadata, apart from that of other services."""

    metadata: ClassVar[MetaData] = MetaData(schema=SCHEMA_NAME)


def _oid(*, primary_key: bool) -> str:
    # "C" orders by bytes, whatever the database's collation: pages by oid need only that.
    column: str = Field(primary_key=primary_key, sa_type=String(64, collation="C"))
    return column


class Object(StorageModel, table=True):
    """An object that a repository holds, or, with `removed_at`, the tombstone of one."""

    __tablename__ = "objects"
    __table_args__ = (
        CheckConstraint("size >= 0", name="objects_size_check"),
        CheckConstraint("(removed_at IS NULL) = (removal_reason IS NULL)", name="objects_removal_check"),
        # Answers whether any repository holds the bytes.
        Index("objects_held_oid", "oid", postgresql_where=text("removed_at IS NULL")),
    )

    repository_id: int = Field(primary_key=True, sa_type=BigInteger, sa_column_kwargs={"autoincrement": False})
    oid: str = _oid(primary_key=True)
    size: int = Field(sa_type=BigInteger)
    created_at: datetime.datetime = Field(
        sa_type=DateTime(timezone=True),
        sa_column_kwargs={"server_default": func.now()},
    )
    removed_at: datetime.datetime | None = Field(
        default=None,
        sa_type=DateTime(timezone=True),
    )
    removal_reason: str | None = None
    removed_by: str | None = None


class UnclaimedObject(StorageModel, table=True):
    """An oid whose last holder may be gone: its bytes go unless a repository holds it after all.

    The row is written with the removal and deleted with the bytes, so that a crash between the two leaves none behind.
    """

    __tablename__ = "unclaimed_objects"

    oid: str = _oid(primary_key=True)


class DeletedRepository(StorageModel, table=True):
    """A repository that was deleted: nothing is written into it any more, by whatever token. Ids are not used again."""

    __tablename__ = "deleted_repositories"

    repository_id: int = Field(primary_key=True, sa_type=BigInteger, sa_column_kwargs={"autoincrement": False})


class Traffic(StorageModel, table=True):
    """The bytes that a repository moved on one UTC day."""

    __tablename__ = "traffic"

    repository_id: int = Field(primary_key=True, sa_type=BigInteger, sa_column_kwargs={"autoincrement": False})
    day: datetime.date = Field(primary_key=True)
    bytes_in: int = Field(sa_type=BigInteger)
    bytes_out: int = Field(sa_type=BigInteger)
