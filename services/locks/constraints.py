"""Which constraint of the tables a statement violates."""

from sqlalchemy.exc import IntegrityError


def violated(error: IntegrityError) -> str:
    """Return the name of the violated constraint, such as `uq_users_name`; empty where Postgres names none."""
    cause = error.orig.__cause__ if error.orig else None
    return getattr(cause, "constraint_name", None) or ""
