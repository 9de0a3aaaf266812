"""Lock spaces: the rules of a repository tell the space of a ref, and a path has at most one lock in each space."""

import asyncio
import hashlib
import time
from collections.abc import Iterable, Sequence

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection

from services.locks.ref_patterns import matching

DEFAULT_SPACE = ""
PER_REF = "per-ref"
DEFAULT = "default"

# Longer refs have a digest for a name, so that the answer to a conflict has a bound.
_MAX_CHARACTERS = 255
_MAX_REPOSITORIES = 10_000
_TURN_SECONDS = 0.005
_RULES = text("SELECT lock_spaces FROM locks.repositories WHERE id = :repository_id")


def space_of(rules: Sequence[str], ref: str) -> str:
    """Return the space of a ref by the first rule `PATTERN=SPACE` whose pattern it matches.

    `per-ref` is a space for each ref. A ref that matches no pattern is in the default space, as is no ref at all.
    """
    rule = matching(rules, ref, pattern_of=_pattern_of)
    name = DEFAULT if rule is None else rule.rpartition("=")[2]
    if name == PER_REF:
        return ref if len(ref) <= _MAX_CHARACTERS else f"sha256:{hashlib.sha256(ref.encode()).hexdigest()}"
    return DEFAULT_SPACE if name == DEFAULT else name


async def spaces_of(rules: Sequence[str], refs: Iterable[str]) -> Sequence[str]:
    """Return the space of each ref, as `space_of` does, with turns for others: a ref may be compared with 100 rules."""
    spaces = []
    turn_ends = time.monotonic() + _TURN_SECONDS
    for ref in refs:
        spaces.append(space_of(rules, ref))
        if time.monotonic() > turn_ends:
            await asyncio.sleep(0)
            turn_ends = time.monotonic() + _TURN_SECONDS
    return spaces


def _pattern_of(rule: str) -> str:
    return rule.rpartition("=")[0]


async def find_rules(connection: AsyncConnection, repository_id: int) -> Sequence[str]:
    """Return the present rules of a repository."""
    return await connection.scalar(_RULES, {"repository_id": repository_id}) or ()


async def find_space(connection: AsyncConnection, repository_id: int, ref: str) -> str:
    """Return the space of a ref by the present rules of a repository."""
    return space_of(await find_rules(connection, repository_id), ref) if ref else DEFAULT_SPACE


class KnownRules:
    """The rules of repositories as this process has last read them.

    They may have changed since: each statement that relies on them compares them, and returns the present rules instead
    of a result if they differ. No call needs a statement more to read them.
    """

    def __init__(self) -> None:
        self._rules: dict[int, Sequence[str]] = {}

    def get(self, repository_id: int) -> Sequence[str]:
        """Return the rules that were last read; none where they were never read."""
        return self._rules.get(repository_id, ())

    def put(self, repository_id: int, rules: Sequence[str]) -> None:
        """Remember the present rules."""
        if len(self._rules) >= _MAX_REPOSITORIES:
            self._rules.clear()
        self._rules[repository_id] = rules
