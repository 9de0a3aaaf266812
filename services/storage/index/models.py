"""The tables of the storage service."""

import datetime
from typing import ClassVar

from sqlalchemy import (
    BigInteger,
    CheckConstraint,
    DateTime,
    Identity,
    Index,
    MetaData,
    SmallInteger,
    String,
    func,
    text,
)
from sqlmodel import Field, SQLModel

SCHEMA_NAME = "storage"


class StorageModel(SQLModel):
    """What the tables of this service share: their own metadata, apart from that of other services."""

    metadata: ClassVar[MetaData] = MetaData(schema=SCHEMA_NAME)


def _oid(*, primary_key: bool) -> str:
    # "C" orders by bytes, whatever the database's collation: pages by oid need only that.
    column: str = Field(primary_key=primary_key, sa_type=String(64, collation="C"))
    return column


def _name(*, primary_key: bool) -> str:
    # An oid, a dot and 16 digits; "C" so that the names of an oid are a range.
    column: str = Field(primary_key=primary_key, sa_type=String(81, collation="C"))
    return column


def _store_id() -> int:
    column: int = Field(primary_key=True, sa_type=SmallInteger, sa_column_kwargs={"autoincrement": False})
    return column


class StoreRecord(StorageModel, table=True):
    """A place that holds bytes. The first is that of `TOWPATH_STORAGE_URL`, and has no URL here."""

    __tablename__ = "stores"
    __table_args__ = (
        # There is one primary.
        Index("stores_primary", "is_primary", unique=True, postgresql_where=text("is_primary")),
    )

    # Never given twice: a process that has not yet heard of a store's end must not take the next for it.
    id: int = Field(primary_key=True, sa_type=SmallInteger, sa_column_args=[Identity(start=2)])
    name: str = Field(sa_column_kwargs={"unique": True})
    url: str | None = Field(default=None, sa_column_kwargs={"unique": True})
    is_primary: bool = False
    created_at: datetime.datetime = Field(
        sa_type=DateTime(timezone=True),
        sa_column_kwargs={"server_default": func.now()},
    )


class CopyRecord(StorageModel, table=True):
    """That a store is a copy of another, and how it is made one."""

    __tablename__ = "copies"

    to_id: int = Field(primary_key=True, sa_type=SmallInteger, foreign_key="storage.stores.id", ondelete="CASCADE")
    from_id: int = Field(sa_type=SmallInteger, foreign_key="storage.stores.id")
    parallel: int
    bytes_per_second: int | None = Field(default=None, sa_type=BigInteger)
    started_at: datetime.datetime = Field(
        sa_type=DateTime(timezone=True),
        sa_column_kwargs={"server_default": func.now()},
    )
    problem: str = ""


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


class Content(StorageModel, table=True):
    """Under which name the bytes of an object that is held lie in a store."""

    __tablename__ = "contents"
    __table_args__ = (Index("contents_doubted", "store_id", "oid", postgresql_where=text("is_doubted")),)

    # By oid first: a batch asks for all stores at once.
    oid: str = _oid(primary_key=True)
    store_id: int = _store_id()
    name: str = _name(primary_key=False)
    writable_until: datetime.datetime | None = Field(
        default=None,
        sa_type=DateTime(timezone=True),
    )
    """Until when a client may put the same bytes there again, with the address of the store that it was given."""
    is_doubted: bool = Field(default=False, sa_column_kwargs={"server_default": text("false")})
    """Whether the bytes were found missing or damaged: others are brought there from another store."""


class OngoingUpload(StorageModel, table=True):
    """A name whose bytes are on their way. The row goes with the commit, which names them in `contents`.

    Where the writer, a process of this service, is gone or has given up, the row becomes one of `discards`: from then
    on the upload cannot be committed any more. Bytes that a client brings to the store itself have no writer, but the
    repository that they are for, and an end.
    """

    __tablename__ = "uploads"
    __table_args__ = (
        CheckConstraint(
            "(writer IS NULL) = (repository_id IS NOT NULL) AND (writer IS NULL) = (expires_at IS NOT NULL)",
            name="uploads_writer_check",
        ),
        Index("uploads_writer", "writer", postgresql_where=text("writer IS NOT NULL")),
        Index("uploads_expires_at", "expires_at", postgresql_where=text("expires_at IS NOT NULL")),
    )

    store_id: int = _store_id()
    name: str = _name(primary_key=True)
    writer: int | None = Field(default=None, sa_type=BigInteger)
    repository_id: int | None = Field(default=None, sa_type=BigInteger)
    expires_at: datetime.datetime | None = Field(default=None, sa_type=DateTime(timezone=True))


class JournalSegment(StorageModel, table=True):
    """A segment of the journal of a disk. What is in it can be committed for as long as the row is there.

    Whoever takes over what another process has left deletes the row first.
    """

    __tablename__ = "journal_segments"

    name: str = Field(primary_key=True, sa_type=String(16, collation="C"))
    store_id: int = Field(sa_type=SmallInteger, foreign_key="storage.stores.id", ondelete="CASCADE")


class Discard(StorageModel, table=True):
    """A name to which nothing refers any more, and never will: what is under it goes when it is due.

    The row is deleted after the bytes, so that a crash between the two leaves none behind. While a client may still put
    bytes there, it stays, and they are removed again at the end of that time.
    """

    __tablename__ = "discards"

    store_id: int = _store_id()
    name: str = _name(primary_key=True)
    due_at: datetime.datetime = Field(sa_type=DateTime(timezone=True), index=True)
    writable_until: datetime.datetime | None = Field(
        default=None,
        sa_type=DateTime(timezone=True),
    )


class UnclaimedObject(StorageModel, table=True):
    """What the version before notes instead of `discards`; a later migration drops it."""

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


class Announcement(StorageModel, table=True):
    """How many bytes of uploads that go on are still to come in a process that shares the disk with others.

    The table is unlogged: its rows are written every second, and are worth nothing soon after.
    """

    __tablename__ = "announcements"
    __table_args__ = ({"prefixes": ["UNLOGGED"]},)

    process: int = Field(primary_key=True, sa_type=BigInteger, sa_column_kwargs={"autoincrement": False})
    remaining_bytes: int = Field(sa_type=BigInteger)
    told_at: datetime.datetime = Field(sa_type=DateTime(timezone=True))
