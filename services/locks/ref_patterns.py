"""Ref patterns such as `refs/heads/rel/*`. They limit the refs that a grant lets its user write."""

import re
from collections.abc import Iterable

_REF_CHARACTERS = 4_096
"""More than the longest ref that git can store; it bounds the time that matching takes."""
# `git help check-ref-format`, rules 1, 3 to 8 and 10; rule 9, the name "@", cannot apply to a name with a "/".
_IN_NO_REF = re.compile(r"[\0-\x20\x7f~^:?*\[\\]|\.\.|@\{|//|/\.|\.lock(?:/|\Z)|\A[/.]|[/.]\Z")


def is_ref(name: str) -> bool:
    """Return whether git accepts `name` as a ref, such as `refs/heads/main`, and it has at most 4,096 characters."""
    return len(name) <= _REF_CHARACTERS and "/" in name and not _IN_NO_REF.search(name)


def matches_any_ref(pattern: str) -> bool:
    """Return whether any ref can match `pattern`.

    A letter in place of each "*" and "?" is a sufficient test, because a fault elsewhere remains whatever they match.
    """
    return is_ref(pattern.replace("*", "x").replace("?", "x"))


def matches(pattern: str, ref: str) -> bool:
    """Return whether all of `ref` matches: "*" is any characters, "/" included, "?" is any character; case counts.

    A `ref` that git does not accept, see `is_ref`, matches nothing, because other software might read it as a name that
    the pattern does not mean. The time is bounded by the product of the lengths, whatever the pattern.
    """
    if not is_ref(ref):
        return False
    at = in_pattern = 0
    star, resume = -1, 0
    while at < len(ref):
        if in_pattern < len(pattern) and pattern[in_pattern] == "*":
            star, resume = in_pattern, at
            in_pattern += 1
        elif in_pattern < len(pattern) and pattern[in_pattern] in ("?", ref[at]):
            at += 1
            in_pattern += 1
        elif star >= 0:
            # Backtrack: the latest star takes one more character; an earlier star never needs to.
            resume += 1
            at, in_pattern = resume, star + 1
        else:
            return False
    return all(left == "*" for left in pattern[in_pattern:])


def matching(patterns: Iterable[str], ref: str) -> str | None:
    """Return the first of the patterns that `ref` matches, or None."""
    return next((pattern for pattern in patterns if matches(pattern, ref)), None)
