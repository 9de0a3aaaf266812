"""Ref patterns such as `refs/heads/rel/*`, which limit what a grant lets its user write."""

from collections.abc import Iterable

_REF_CHARACTERS = 4_096
"""Longer than git can store; bounds the time that matching takes."""


def matches(pattern: str, ref: str) -> bool:
    """Tell whether `ref` as a whole matches: "*" is any characters, "/" included, "?" is any one; case counts.

    No ref, a ref with NUL and a ref of more than 4,096 characters match nothing. The time is bounded by the product
    of the lengths, whatever the pattern.
    """
    if not ref or "\0" in ref or len(ref) > _REF_CHARACTERS:
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
            # The latest star takes one character more; an earlier one never needs to.
            resume += 1
            at, in_pattern = resume, star + 1
        else:
            return False
    return all(left == "*" for left in pattern[in_pattern:])


def matching(patterns: Iterable[str], ref: str) -> str | None:
    """Return the first of the patterns that `ref` matches, or None."""
    return next((pattern for pattern in patterns if matches(pattern, ref)), None)
