"""The name of the constraint that a statement violates."""

from asyncpg import IntegrityConstraintViolationError
from sqlalchemy.exc import IntegrityError


def violated(error: IntegrityError | IntegrityConstraintViolationError) -> str:
    """Return the name of the violated constraint, such as `uq_users_name`; empty if Postgres names none."""
    cause: BaseException | None = error
    if isinstance(error, IntegrityError):
        cause = error.orig.__cause__ if error.orig else None
    return getattr(cause, "constraint_name", None) or ""
