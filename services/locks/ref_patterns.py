"""Ref patterns such as `refs/heads/rel/*`. They limit the refs that a grant lets its user write."""

import re
from collections.abc import Callable, Iterable
from functools import lru_cache

_REF_CHARACTERS = 4_096
"""More than the longest ref that git can store; it bounds the time that matching takes."""
# `git help check-ref-format`, rules 1, 3 to 8 and 10; rule 9, the name "@", cannot apply to a name with a "/".
_IN_NO_REF = re.compile(r"[\0-\x20\x7f~^:?*\[\\]|\.\.|@\{|//|/\.|\.lock(?:/|\Z)|\A[/.]|[/.]\Z")


def is_ref(name: str) -> bool:
    """Return whether git accepts `name` as a ref, such as `refs/heads/main`, and it has at most 4,096 characters."""
    return len(name) <= _REF_CHARACTERS and "/" in name and not _IN_NO_REF.search(name)


def kept_ref(name: str) -> str:
    """Return what a row keeps of the ref that a client names: nothing where git does not accept it as a ref."""
    return name if is_ref(name) else ""


def matches_any_ref(pattern: str) -> bool:
    """Return whether any ref can match `pattern`.

    A letter in place of each "*" and "?" is a sufficient test, because a fault elsewhere remains whatever they match.
    """
    return is_ref(pattern.replace("*", "x").replace("?", "x"))


def matching(rules: Iterable[str], ref: str, *, pattern_of: Callable[[str], str] = str) -> str | None:
    """Return the first of the rules, which are patterns or have one, whose pattern all of `ref` matches, or None.

    "*" is any characters, "/" included, "?" is any character; case counts. A `ref` that git does not accept, see
    `is_ref`, matches nothing, because other software might read it as a name that the pattern does not mean.
    """
    return next((rule for rule in rules if _matches(pattern_of(rule), ref)), None) if is_ref(ref) else None


def _matches(pattern: str, ref: str) -> bool:
    return _expression(pattern).fullmatch(ref) is not None


@lru_cache(maxsize=4096)
def _expression(pattern: str) -> re.Pattern[str]:
    """Return the regular expression of a pattern.

    Between two stars, the leftmost place leaves most for what follows, so that no other place is ever tried.
    """
    first, *rest = ("".join("." if each == "?" else re.escape(each) for each in part) for part in pattern.split("*"))
    between = "".join(f"(?>.*?{part})" for part in rest[:-1])
    return re.compile(first + between + (f".*{rest[-1]}" if rest else ""), re.DOTALL)
