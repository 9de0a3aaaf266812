"""Patterns of repositories at a forge, such as `acme/*`: the repositories there that one of ours may be tied to."""

import re
from collections.abc import Iterable

from services.common.errors import InvalidArgument, Reason
from services.locks.validation import is_repository_name

_SEGMENT = re.compile(r"[A-Za-z0-9._-]*\*?[A-Za-z0-9._-]*", re.ASCII)
_MAX_CHARACTERS = 255
_MAX_PATTERNS = 100
_REST = "**"


def matches(pattern: str, name: str) -> bool:
    """Return whether `name` matches, whatever its case.

    A `*` in a segment is any characters but `/`; the last segment `**` is one or more segments.
    """
    segments, wanted = name.lower().split("/"), pattern.lower().split("/")
    if wanted[-1] == _REST and len(segments) >= len(wanted):
        del segments[len(wanted) - 1 :], wanted[-1]
    return len(segments) == len(wanted) and all(map(_matches_segment, wanted, segments))


def _matches_segment(pattern: str, segment: str) -> bool:
    before, star, after = pattern.partition("*")
    if not star:
        return segment == pattern
    return len(segment) >= len(before) + len(after) and segment.startswith(before) and segment.endswith(after)


def matches_any(patterns: Iterable[str], name: str) -> bool:
    """Return whether `name` matches one of the patterns."""
    return any(matches(pattern, name) for pattern in patterns)


def check_patterns(field: str, patterns: Iterable[str]) -> list[str]:
    """Return the distinct patterns. Raise `InvalidArgument` for none, for more than 100, and for one that is not valid.

    A valid pattern has two or more segments, at most one `*` in each of them, and `**` only as the last one.
    """
    distinct = list(dict.fromkeys(patterns))
    if not 0 < len(distinct) <= _MAX_PATTERNS:
        raise InvalidArgument(Reason.INVALID_FIELD, f"{field}: expected 1 to {_MAX_PATTERNS} patterns, such as acme/*")
    for pattern in distinct:
        *segments, last = pattern.split("/")
        checked = segments if last == _REST else [*segments, last]
        is_valid = bool(segments) and all(segment and _SEGMENT.fullmatch(segment) for segment in checked)
        if not is_valid or len(pattern) > _MAX_CHARACTERS:
            raise InvalidArgument(
                Reason.INVALID_FIELD,
                f"{field}: expected patterns of two or more segments, such as acme/*, with at most one * in each "
                f"segment, or with ** as the last segment, in at most {_MAX_CHARACTERS} characters",
            )
    return distinct


def check_forge_repository(field: str, name: str, patterns: Iterable[str]) -> None:
    """Raise `InvalidArgument` unless `name` can be a repository at a forge, and matches one of the patterns."""
    if "/" not in name or not is_repository_name(name):
        raise InvalidArgument(Reason.INVALID_FIELD, f"{field}: expected the name at the forge, such as acme/film")
    allowed = list(patterns)
    if not matches_any(allowed, name):
        raise InvalidArgument(
            Reason.INVALID_FIELD, f"{field}: expected a repository that the forge allows: {', '.join(allowed)}"
        )
