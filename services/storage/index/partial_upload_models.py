"""The tables of partial uploads."""

import datetime

from sqlalchemy import BigInteger, CheckConstraint, DateTime, Identity, SmallInteger, String, UniqueConstraint
from sqlmodel import Field

from services.storage.index.models import StorageModel


class PartialUpload(StorageModel, table=True):
    """An upload that is resumable: how many bytes have arrived, and who may add to them at present."""

    __tablename__ = "partial_uploads"
    __table_args__ = (
        # Of each user, so that nobody waits for the upload of another, nor continues bytes that another has sent.
        UniqueConstraint("repository_id", "oid", "size", "user_id"),
        CheckConstraint("received BETWEEN 0 AND size", name="partial_uploads_received_check"),
    )

    id: int = Field(primary_key=True, sa_type=BigInteger, sa_column_args=[Identity()])
    repository_id: int = Field(sa_type=BigInteger)
    oid: str = Field(sa_type=String(64, collation="C"))
    size: int = Field(sa_type=BigInteger)
    """The size of the whole object in bytes, as the client announces it."""
    user_id: int = Field(sa_type=BigInteger, index=True)
    """The user who brings it; 0 for nobody."""
    received: int = Field(sa_type=BigInteger)
    """The bytes in the parts, which follow each other without gaps."""
    holder: int = Field(sa_type=BigInteger)
    """A number of the call that has the lease, or had it last, and of no other call."""
    held_until: datetime.datetime = Field(sa_type=DateTime(timezone=True))
    """The end of the lease; from then on, another call may take it."""
    expires_at: datetime.datetime = Field(sa_type=DateTime(timezone=True), index=True)


class PartialUploadPart(StorageModel, table=True):
    """A part: some of the bytes of a partial upload, from `start` on, in a blob of their own.

    Its blob name moves from `uploads` to this table, and from here to `discards`.
    """

    __tablename__ = "partial_upload_parts"
    __table_args__ = (CheckConstraint("size > 0", name="partial_upload_parts_size_check"),)

    upload_id: int = Field(primary_key=True, sa_type=BigInteger, foreign_key="storage.partial_uploads.id")
    start: int = Field(primary_key=True, sa_type=BigInteger, sa_column_kwargs={"autoincrement": False})
    size: int = Field(sa_type=BigInteger)
    store_id: int = Field(sa_type=SmallInteger)
    name: str = Field(sa_type=String(81, collation="C"), index=True)
