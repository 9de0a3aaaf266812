"""Events of locks, and webhooks with their deliveries."""

from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import (
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    DateTime,
    ForeignKey,
    Identity,
    Index,
    Integer,
    SmallInteger,
    Uuid,
    func,
    text,
)
from sqlalchemy.dialects.postgresql import JSONB
from sqlmodel import Field

from services.locks.models.base import (
    Record,
    flag_column,
    identity_column,
    moment_column,
    number_column,
    reference_column,
    text_column,
    texts_column,
)


class LockEvent(Record, table=True):
    """A change of a lock. Triggers insert the rows; those of each stripe have the numbers of its `changes`.

    `caused_by` is the name of the user who made the change; `previous_id` and `previous_owner` are those of a lock that
    was stolen. There is no foreign key, because its check would take as long as the insertion. See the migration 0007.
    """

    __tablename__ = "lock_events"

    repository_id: int = Field(sa_column=Column(BigInteger, primary_key=True, autoincrement=False))
    stripe: int = Field(sa_column=Column(SmallInteger, primary_key=True, autoincrement=False))
    number: int = Field(sa_column=Column(BigInteger, primary_key=True, autoincrement=False))
    id: int = Field(sa_column=Column(BigInteger, Identity(always=True), nullable=False))
    type: str = Field(sa_column=text_column(empty=True))
    lock_id: int = Field(sa_column=number_column())
    path: str = Field(sa_column=text_column(empty=True))
    space: str = Field(sa_column=text_column(empty=True))
    note: str = Field(sa_column=text_column(empty=True))
    owner_id: int = Field(sa_column=number_column())
    owner_name: str = Field(sa_column=text_column(empty=True))
    locked_at: datetime = Field(sa_column=moment_column())
    caused_by: str = Field(sa_column=text_column(empty=True))
    reason: str = Field(sa_column=text_column(empty=True))
    forced: bool = Field(sa_column=Column(Boolean, nullable=False))
    previous_id: int | None = Field(sa_column=number_column(nullable=True))
    previous_owner: str = Field(sa_column=text_column(empty=True))
    created_at: datetime = Field(sa_column=moment_column(now=True))


class Hook(Record, table=True):
    """A webhook: an URL to which events are delivered, of one repository or of all where `repository_id` is None.

    `events` are types of events, or prefixes such as `lock.*`. `secret` signs the deliveries.
    """

    __tablename__ = "hooks"
    __table_args__ = (
        Index(None, "repository_id"),
        CheckConstraint("format IN ('json', 'slack', 'discord')", name="format"),
    )

    id: int = Field(sa_column=identity_column())
    repository_id: int | None = Field(
        sa_column=Column(BigInteger, ForeignKey("repositories.id", ondelete="CASCADE"), nullable=True)
    )
    url: str = Field(sa_column=text_column(empty=True))
    events: list[str] = Field(sa_column=texts_column())
    format: str = Field(sa_column=text_column(empty=True))
    secret: str = Field(sa_column=text_column(empty=True))
    allows_private: bool = Field(sa_column=flag_column())
    created_at: datetime = Field(sa_column=moment_column(now=True))
    disabled_at: datetime | None = Field(sa_column=moment_column(nullable=True))
    disabled_because: str = Field(sa_column=text_column(empty=True))


class HookDelivery(Record, table=True):
    """An event to deliver to a webhook. It is pending until `next_attempt_at` is None; triggers insert the rows.

    `payload` is the row of a `LockEvent`, or of another event the fields of its own, and has the name that the
    repository had. `queued_at` is the time from which attempts are made: of the insertion, or of a later request to
    redeliver. While an attempt is made, `next_attempt_at` is the end of the lease of the service that makes it, and
    `problem` is empty; after a failure, `problem` says what failed.
    """

    __tablename__ = "hook_deliveries"
    __table_args__ = (
        Index(None, "hook_id", "id"),
        Index(
            "ix_hook_deliveries_pending",
            "hook_id",
            "repository_id",
            "id",
            postgresql_where=text("next_attempt_at IS NOT NULL"),
        ),
    )

    id: int = Field(sa_column=identity_column())
    hook_id: int = Field(sa_column=reference_column("hooks.id", on_delete="CASCADE"))
    repository_id: int = Field(sa_column=number_column())
    message_uuid: UUID = Field(sa_column=Column(Uuid, nullable=False, server_default=func.gen_random_uuid()))
    event_type: str = Field(sa_column=text_column(empty=True))
    payload: dict[str, Any] = Field(sa_column=Column(JSONB, nullable=False))
    created_at: datetime = Field(sa_column=moment_column(now=True))
    queued_at: datetime = Field(sa_column=moment_column(now=True))
    attempts: int = Field(sa_column=Column(Integer, nullable=False, server_default="0"))
    next_attempt_at: datetime | None = Field(
        sa_column=Column(DateTime(timezone=True), nullable=True, server_default=func.now())
    )
    delivered_at: datetime | None = Field(sa_column=moment_column(nullable=True))
    response_status: int | None = Field(sa_column=Column(Integer, nullable=True))
    problem: str = Field(sa_column=text_column(empty=True))
