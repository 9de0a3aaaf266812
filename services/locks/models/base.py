"""The base of all tables, and their columns.

Ids are 64-bit identities and never reused. Names compare and sort by their bytes, whatever the database's collation.
"""

from datetime import datetime
from typing import ClassVar

from sqlalchemy import BigInteger, Boolean, Column, DateTime, ForeignKey, Identity, MetaData, Table, Text, func, text
from sqlalchemy.dialects.postgresql import ARRAY
from sqlalchemy.orm import registry
from sqlmodel import SQLModel

_NAMES_OF_CONSTRAINTS = {
    "pk": "pk_%(table_name)s",
    "uq": "uq_%(table_name)s_%(column_0_N_name)s",
    "fk": "fk_%(table_name)s_%(column_0_name)s",
    "ix": "ix_%(table_name)s_%(column_0_N_name)s",
    "ck": "ck_%(table_name)s_%(constraint_name)s",
}


class Record(SQLModel, registry=registry(metadata=MetaData(naming_convention=_NAMES_OF_CONSTRAINTS))):
    """A row of one of the tables."""

    __table__: ClassVar[Table]


def identity_column() -> Column[int]:
    """Return a primary key of ids that are never reused."""
    return Column(BigInteger, Identity(always=True), primary_key=True)


def reference_column(target: str, *, on_delete: str) -> Column[int]:
    """Return a column that refers to the id of a row."""
    return Column(BigInteger, ForeignKey(target, ondelete=on_delete), nullable=False)


def optional_reference_column(target: str, *, on_delete: str) -> Column[int]:
    """Return a column that is empty or refers to the id of a row."""
    return Column(BigInteger, ForeignKey(target, ondelete=on_delete), nullable=True)


def key_column(target: str) -> Column[int]:
    """Return a part of a primary key that refers to the id of a row; the row's deletion deletes this row too."""
    return Column(BigInteger, ForeignKey(target, ondelete="CASCADE"), primary_key=True, autoincrement=False)


def text_column(*, unique: bool = False, empty: bool = False, primary_key: bool = False) -> Column[str]:
    """Return a column of text that compares by its bytes; with `empty`, the text is empty by default."""
    return Column(
        Text(collation="C"),
        nullable=False,
        unique=unique,
        server_default="" if empty else None,
        primary_key=primary_key,
    )


def texts_column() -> Column[list[str]]:
    """Return a column of lists of texts, empty by default."""
    return Column(ARRAY(Text), nullable=False, server_default="{}")


def flag_column(*, primary_key: bool = False) -> Column[bool]:
    """Return a column that is false by default."""
    return Column(Boolean, nullable=False, server_default=text("false"), primary_key=primary_key)


def number_column(*, nullable: bool = False) -> Column[int]:
    """Return a column of 64-bit integers."""
    return Column(BigInteger, nullable=nullable)


def moment_column(*, now: bool = False, nullable: bool = False, primary_key: bool = False) -> Column[datetime]:
    """Return a column of times; with `now`, the time of the insertion by default."""
    default = func.now() if now else None
    return Column(DateTime(timezone=True), nullable=nullable, server_default=default, primary_key=primary_key)
