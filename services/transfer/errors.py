"""Errors while objects move, in addition to `CommandError`, which ends the whole command."""

from enum import StrEnum


class Kind(StrEnum):
    """The kind of a problem with one object."""

    MISSING = "missing"
    WRONG = "wrong"
    REFUSED = "refused"
    FAILED = "failed"


class ObjectProblem(Exception):
    """One object cannot be moved, whatever is tried; the others can."""

    def __init__(self, kind: Kind, message: str) -> None:
        super().__init__(message)
        self.kind = kind
        self.message = message


class Interrupted(Exception):
    """Something failed that may work at the next try: after `seconds`, if the other side has named a time.

    `is_unreachable` says that the other side does not answer at all, so that no object is worth a try of its own.
    """

    def __init__(self, message: str, *, seconds: float | None = None, is_unreachable: bool = False) -> None:
        super().__init__(message)
        self.message = message
        self.seconds = seconds
        self.is_unreachable = is_unreachable
