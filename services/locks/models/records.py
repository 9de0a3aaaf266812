"""The audit log, and the explanations of refusals."""

from datetime import datetime
from typing import Any

from sqlalchemy import BigInteger, Column, Index, Sequence, text
from sqlalchemy.dialects.postgresql import JSONB
from sqlmodel import Field

from services.locks.models.base import Record, identity_column, moment_column, text_column, texts_column


class AuditEvent(Record, table=True):
    """A change that somebody made, with the subject before and after it; rows are only ever added.

    The table has a partition for each month, so that old months are dropped whole.
    """

    __tablename__ = "audit_events"
    __table_args__ = ({"postgresql_partition_by": "RANGE (created_at)"},)

    created_at: datetime = Field(sa_column=moment_column(now=True, primary_key=True))
    id: int = Field(
        sa_column=Column(
            BigInteger,
            Sequence("audit_events_id"),
            server_default=Sequence("audit_events_id").next_value(),
            primary_key=True,
        )
    )
    type: str = Field(sa_column=text_column())
    actor: str = Field(sa_column=text_column())
    source: str = Field(default="", sa_column=text_column(empty=True))
    request_id: str = Field(default="", sa_column=text_column(empty=True))
    subject: str = Field(default="", sa_column=text_column(empty=True))
    repository: str = Field(default="", sa_column=text_column(empty=True))
    before: dict[str, Any] | None = Field(default=None, sa_column=Column(JSONB(none_as_null=True), nullable=True))
    after: dict[str, Any] | None = Field(default=None, sa_column=Column(JSONB(none_as_null=True), nullable=True))


class Refusal(Record, table=True):
    """The explanation of a request that was refused; it has no credential."""

    __tablename__ = "refusals"
    __table_args__ = (
        Index(None, "request_id"),
        Index(None, "created_at"),
        Index("ix_refusals_of_strangers", "id", postgresql_where=text("user_name = ''")),
        Index("ix_refusals_of_users", "id", postgresql_where=text("user_name <> ''")),
    )

    id: int = Field(sa_column=identity_column())
    request_id: str = Field(sa_column=text_column())
    created_at: datetime = Field(sa_column=moment_column(now=True))
    reason: str = Field(sa_column=text_column())
    message: str = Field(sa_column=text_column())
    rule: str = Field(sa_column=text_column())
    source: str = Field(default="", sa_column=text_column(empty=True))
    user_name: str = Field(default="", sa_column=text_column(empty=True))
    repository: str = Field(default="", sa_column=text_column(empty=True))
    permission: str = Field(default="", sa_column=text_column(empty=True))
    ref: str = Field(default="", sa_column=text_column(empty=True))
    groups: list[str] = Field(default=[], sa_column=texts_column())
    grants: list[dict[str, Any]] = Field(default=[], sa_column=Column(JSONB, nullable=False, server_default="[]"))
