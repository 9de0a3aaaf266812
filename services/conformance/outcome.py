"""The ends of a case: it passed, it failed with a finding, it does not apply, or its preparation failed."""

from enum import StrEnum


class Level(StrEnum):
    """The weight of a case."""

    MUST = "must"
    """The interface demands it."""
    SHOULD = "should"
    """The interface recommends it, or clients in use break or lose data without it."""


class Outcome(StrEnum):
    """The end of a case."""

    PASSED = "passed"
    FAILED = "failed"
    SKIPPED = "skipped"
    BLOCKED = "blocked"
    """A step before the case itself failed, so that nothing is known about the case."""


class Finding(Exception):
    """The server did something else than the case expects."""

    def __init__(self, expected: str, seen: str, exchange: str = "") -> None:
        super().__init__(f"expected {expected}; got {seen}")
        self.exchange = exchange
        """The request and the answer in short, without credentials."""


class NotApplicable(Exception):
    """The case says nothing about this server, or these users; the message is the reason."""


class Blocked(Exception):
    """A step before the case itself failed; the message says which, and how."""

    def __init__(self, step: str, finding: Finding) -> None:
        super().__init__(f"{step}: {finding}")
        self.exchange = finding.exchange
