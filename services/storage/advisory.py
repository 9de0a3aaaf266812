"""The keys of this service's advisory locks in Postgres."""

from sqlalchemy import ColumnElement, func, literal


def key(name: object) -> ColumnElement[int]:
    """Return the key of the lock of that name."""
    return func.hashtextextended(f"towpath storage {name}", literal(0))
