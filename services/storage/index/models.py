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
    """Base class of the tables of this service, with metadata separate from those of other services."""

    metadata: ClassVar[MetaData] = MetaData(schema=SCHEMA_NAME)


def _oid() -> str:
    # Collation "C" orders by bytes, whatever the database's collation: keyset pages by oid need only that.
    column: str = Field(primary_key=True, sa_type=String(64, collation="C"))
    return column


def _name(*, primary_key: bool) -> str:
    # 81 characters: an oid, a dot and 16 digits. Collation "C", so that the blob names of an oid form a range.
    column: str = Field(primary_key=primary_key, sa_type=String(81, collation="C"))
    return column


def _id(sa_type: type[BigInteger | SmallInteger]) -> int:
    column: int = Field(primary_key=True, sa_type=sa_type, sa_column_kwargs={"autoincrement": False})
    return column


def _now() -> datetime.datetime:
    column: datetime.datetime = Field(sa_type=DateTime(timezone=True), sa_column_kwargs={"server_default": func.now()})
    return column


def _list_index(name: str, *columns: str, where: str) -> Index:
    return Index(name, "repository_id", *columns, postgresql_where=text(where), postgresql_concurrently=True)


class StoreRecord(StorageModel, table=True):
    """A store. The first store is the one of `TOWPATH_STORAGE_URL`, and has no URL here."""

    __tablename__ = "stores"
    __table_args__ = (
        # There is only one primary.
        Index("stores_primary", "is_primary", unique=True, postgresql_where=text("is_primary")),
    )

    # Never reused, because a process that has not yet noticed a store's deletion must not take the next store for it.
    id: int = Field(primary_key=True, sa_type=SmallInteger, sa_column_args=[Identity(start=2)])
    name: str = Field(sa_column_kwargs={"unique": True})
    url: str | None = Field(default=None, sa_column_kwargs={"unique": True})
    is_primary: bool = False
    created_at: datetime.datetime = _now()


class CopyRecord(StorageModel, table=True):
    """The record that a store is a copy of another, with the terms of the copying."""

    __tablename__ = "copies"

    to_id: int = Field(primary_key=True, sa_type=SmallInteger, foreign_key="storage.stores.id", ondelete="CASCADE")
    from_id: int = Field(sa_type=SmallInteger, foreign_key="storage.stores.id")
    parallel: int
    bytes_per_second: int | None = Field(default=None, sa_type=BigInteger)
    started_at: datetime.datetime = _now()
    problem: str = ""


class Object(StorageModel, table=True):
    """An object that a repository holds, or, with `removed_at`, the tombstone of one."""

    __tablename__ = "objects"
    __table_args__ = (
        CheckConstraint("size >= 0", name="objects_size_check"),
        CheckConstraint("(removed_at IS NULL) = (removal_reason IS NULL)", name="objects_removal_check"),
        # Answers whether any repository needs the bytes of the object.
        Index("objects_kept_oid", "oid", postgresql_where=text("removed_at IS NULL OR bin_until IS NOT NULL")),
        Index("objects_bin_until", "bin_until", postgresql_where=text("bin_until IS NOT NULL")),
        Index("objects_collected", "repository_id", "oid", postgresql_where=text("is_collected")),
        # Many objects may have one size, and few come at one time: that index is a tenth as large without the oid.
        _list_index("objects_held_size", "size", "oid", where="removed_at IS NULL"),
        _list_index("objects_held_created_at", "created_at", where="removed_at IS NULL"),
        _list_index("objects_removed_size", "size", "oid", where="removed_at IS NOT NULL"),
        _list_index("objects_bin_oid", "oid", where="bin_until IS NOT NULL"),
        _list_index("objects_bin_removed_at", "removed_at", "oid", where="bin_until IS NOT NULL"),
    )

    repository_id: int = _id(BigInteger)
    oid: str = _oid()
    size: int = Field(sa_type=BigInteger)
    created_at: datetime.datetime = _now()
    removed_at: datetime.datetime | None = Field(default=None, sa_type=DateTime(timezone=True))
    removal_reason: str | None = None
    removed_by: str | None = None
    bin_until: datetime.datetime | None = Field(default=None, sa_type=DateTime(timezone=True))
    """The time until which the bytes of a removed object are kept; NULL for a held object, or if they are gone."""
    used_at: datetime.datetime | None = Field(default=None, sa_type=DateTime(timezone=True))
    """The time of the last announcement or read that was recorded; NULL if there was none since the object came."""
    is_collected: bool = Field(default=False, sa_column_kwargs={"server_default": text("false")})
    """True if the object was removed as garbage: an upload ends the removal."""
    added_by: int | None = Field(default=None, sa_type=BigInteger)
    """The id of the user who brought it to the repository first; NULL if no service recorded one."""


class Content(StorageModel, table=True):
    """The blob of a held object in one store."""

    __tablename__ = "contents"
    __table_args__ = (
        Index("contents_doubted", "store_id", "oid", postgresql_where=text("is_doubted")),
        Index("contents_checked_at", "store_id", "checked_at", postgresql_where=text("NOT is_doubted")),
    )

    # The key begins with the oid because a batch looks in all stores at once.
    oid: str = _oid()
    store_id: int = _id(SmallInteger)
    name: str = _name(primary_key=False)
    writable_until: datetime.datetime | None = Field(default=None, sa_type=DateTime(timezone=True))
    """The time until which a client may put the same bytes there again with its signed URL; NULL if it cannot."""
    is_doubted: bool = Field(default=False, sa_column_kwargs={"server_default": text("false")})
    """True if the blob was found damaged: it is replaced from another store or by a client."""
    checked_at: datetime.datetime = _now()
    """The time at which all bytes were last found right: at their arrival, or by the scrubber."""


class OngoingUpload(StorageModel, table=True):
    """A pending blob name. The commit moves it to `contents`.

    If the writer, a process of this service, is gone or has abandoned the upload, the row moves to `discards`: from
    then on the upload cannot be committed any more. A direct upload has no writer, but a repository, an expiry, a user
    (0 for one that is not known) and a size; the last two are missing where the version before recorded it.
    """

    __tablename__ = "uploads"
    __table_args__ = (
        CheckConstraint(
            "(writer IS NULL) = (repository_id IS NOT NULL) AND (writer IS NULL) = (expires_at IS NOT NULL)",
            name="uploads_writer_check",
        ),
        Index("uploads_writer", "writer", postgresql_where=text("writer IS NOT NULL")),
        Index("uploads_expires_at", "expires_at", postgresql_where=text("expires_at IS NOT NULL")),
        Index("uploads_user_id", "repository_id", "user_id", postgresql_where=text("repository_id IS NOT NULL")),
    )

    store_id: int = _id(SmallInteger)
    name: str = _name(primary_key=True)
    writer: int | None = Field(default=None, sa_type=BigInteger)
    repository_id: int | None = Field(default=None, sa_type=BigInteger)
    expires_at: datetime.datetime | None = Field(default=None, sa_type=DateTime(timezone=True))
    user_id: int | None = Field(default=None, sa_type=BigInteger)
    size: int | None = Field(default=None, sa_type=BigInteger)


class JournalSegment(StorageModel, table=True):
    """A segment of the journal of a disk. Its objects can be committed for as long as the row exists.

    A process that takes over a segment of another process deletes the row first.
    """

    __tablename__ = "journal_segments"

    name: str = Field(primary_key=True, sa_type=String(16, collation="C"))
    store_id: int = Field(sa_type=SmallInteger, foreign_key="storage.stores.id", ondelete="CASCADE")


class Discard(StorageModel, table=True):
    """A blob name to which nothing refers any more, and never will: the sweeper deletes its blob when it is due.

    The row is deleted after the blob, so that a crash between the two leaves no blob behind. While a client may still
    upload to the name, the row stays, and the blob is deleted again at the end of that time.
    """

    __tablename__ = "discards"

    store_id: int = _id(SmallInteger)
    name: str = _name(primary_key=True)
    due_at: datetime.datetime = Field(sa_type=DateTime(timezone=True), index=True)
    writable_until: datetime.datetime | None = Field(default=None, sa_type=DateTime(timezone=True))


class UnclaimedObject(StorageModel, table=True):
    """The table that the previous version writes instead of `discards`; a later migration drops it."""

    __tablename__ = "unclaimed_objects"

    oid: str = _oid()


class CollectionRecord(StorageModel, table=True):
    """A collection of garbage that goes on, or whose process was killed."""

    __tablename__ = "collections"

    id: int = Field(primary_key=True, sa_type=BigInteger, sa_column_args=[Identity()])
    repository_id: int = Field(sa_type=BigInteger)
    created_at: datetime.datetime = _now()
    is_ended: bool = Field(default=False, sa_column_kwargs={"server_default": text("false")})
    """True while what it retains is being deleted: nothing may be removed any more."""


class RetainedOid(StorageModel, table=True):
    """The oid of an object that a collection retains, and that its repository holds or has a tombstone of."""

    __tablename__ = "retained_oids"

    collection_id: int = Field(
        primary_key=True, sa_type=BigInteger, foreign_key="storage.collections.id", ondelete="CASCADE"
    )
    oid: str = _oid()


class CollectionTurn(StorageModel, table=True):
    """The last turn to collect a repository's garbage, of those who do it now and then."""

    __tablename__ = "collection_turns"

    repository_id: int = _id(BigInteger)
    holder: str
    """The caller that has the turn until `held_until`; empty once it has ended."""
    began_at: datetime.datetime = Field(sa_type=DateTime(timezone=True))
    held_until: datetime.datetime = Field(sa_type=DateTime(timezone=True))
    done_at: datetime.datetime | None = Field(default=None, sa_type=DateTime(timezone=True))
    """The beginning of the last turn that was done; NULL if none was."""


class DeletedRepository(StorageModel, table=True):
    """A deleted repository: no token allows writing to it any more. Its id is never reused."""

    __tablename__ = "deleted_repositories"

    repository_id: int = _id(BigInteger)


class Traffic(StorageModel, table=True):
    """The bytes that a repository transferred on one UTC day."""

    __tablename__ = "traffic"

    repository_id: int = _id(BigInteger)
    day: datetime.date = Field(primary_key=True)
    bytes_in: int = Field(sa_type=BigInteger)
    bytes_out: int = Field(sa_type=BigInteger)


class Announcement(StorageModel, table=True):
    """The bytes that a process has reserved for its running uploads, published to processes that share the disk.

    The table is unlogged because its rows are written every second, and are worth nothing soon after.
    """

    __tablename__ = "announcements"
    __table_args__ = ({"prefixes": ["UNLOGGED"]},)

    process: int = _id(BigInteger)
    remaining_bytes: int = Field(sa_type=BigInteger)
    told_at: datetime.datetime = Field(sa_type=DateTime(timezone=True))
