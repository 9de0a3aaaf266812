"""Ref patterns such as `refs/heads/rel/*`, which limit what a grant lets its user write."""

import re
from collections.abc import Iterable

_REF_CHARACTERS = 4_096
"""Longer than git can store; bounds the time that matching takes."""
# `git help check-ref-format`, rules 1, 3 to 8 and 10; what has a "/" is not the "@" of rule 9.
_IN_NO_REF = re.compile(r"[\0-\x20\x7f~^:?*\[\\]|\.\.|@\{|//|/\.|\.lock(?:/|\Z)|\A[/.]|[/.]\Z")


def is_ref(name: str) -> bool:
    """Tell whether git takes `name` for the name of a ref, such as `refs/heads/main`; at most 4,096 characters."""
    return len(name) <= _REF_CHARACTERS and "/" in name and not _IN_NO_REF.search(name)


def matches_any_ref(pattern: str) -> bool:
    """Tell whether there are refs that match; what is wrong with a pattern is wrong whatever its "*" and "?" are."""
    return is_ref(pattern.replace("*", "x").replace("?", "x"))


def matches(pattern: str, ref: str) -> bool:
    """Tell whether `ref` as a whole matches: "*" is any characters, "/" included, "?" is any one; case counts.

    What is no ref for git, see `is_ref`, matches nothing: another might read it as a name that the pattern does not
    mean. The time is bounded by the product of the lengths, whatever the pattern.
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
            # The latest star takes one character more; an earlier one never needs to.
            resume += 1
            at, in_pattern = resume, star + 1
        else:
            return False
    return all(left == "*" for left in pattern[in_pattern:])


def matching(patterns: Iterable[str], ref: str) -> str | None:
    """Return the first of the patterns that `ref` matches, or None."""
    return next((pattern for pattern in patterns if matches(pattern, ref)), None)
