"""Validation of the names of users, tokens and repositories, of ref patterns, and of idempotency keys."""

import re
from collections.abc import Iterable

from services.common.errors import InvalidArgument, Reason
from services.locks.ref_patterns import matches_any_ref

_NAME = re.compile(r"[A-Za-z0-9._@+-]{1,64}", re.ASCII)
_SEGMENT = re.compile(r"[A-Za-z0-9._-]+", re.ASCII)
_REPOSITORY_CHARACTERS = 255
_PATTERN_CHARACTERS = 255
_PATTERNS = 100
_NOTE_CHARACTERS = 500


def _refuse(field: str, expected: str) -> InvalidArgument:
    return InvalidArgument(Reason.INVALID_FIELD, f"{field}: expected {expected}")


def is_name(name: str) -> bool:
    """Return whether `name` can be the name of a user or a token."""
    return _NAME.fullmatch(name) is not None


def check_name(field: str, name: str) -> None:
    """Raise `InvalidArgument` unless `is_name` accepts `name`; `field` is named in the message."""
    if not is_name(name):
        raise _refuse(field, "1 to 64 of A-Z a-z 0-9 . _ @ + -")


def check_new_name(field: str, name: str) -> None:
    """Raise `InvalidArgument` unless `check_name` accepts `name` and no command would parse it as an option."""
    check_name(field, name)
    _check_beginning(field, name)


def _check_beginning(field: str, name: str) -> None:
    if name.startswith("-"):
        raise _refuse(field, 'a name that does not begin with "-"')


def is_repository_name(name: str) -> bool:
    """Return whether `name` is segments of [A-Za-z0-9._-], separated by "/", with at most 255 characters in all.

    No segment is "." or "..". No segment ends in ".git", because ".git" ends the name of a repository in an address.
    """
    if len(name) > _REPOSITORY_CHARACTERS:
        return False
    return all(
        _SEGMENT.fullmatch(segment) and segment not in (".", "..") and not segment.endswith(".git")
        for segment in name.split("/")
    )


def check_repository_name(field: str, name: str) -> None:
    """Raise `InvalidArgument` unless `is_repository_name` accepts `name`; `field` is named in the message."""
    if not is_repository_name(name):
        raise _refuse(
            field,
            'at most 255 characters: segments of A-Z a-z 0-9 . _ - separated by "/", '
            'none of them "." or ".." and none ending in ".git"',
        )


def check_new_repository_name(field: str, name: str) -> None:
    """Raise `InvalidArgument` unless `check_repository_name` accepts `name` and it has no other meaning.

    A name that begins with "-" is an option to a command, and "/info/lfs" ends the address of a repository.
    """
    check_repository_name(field, name)
    _check_beginning(field, name)
    if f"/{name}".endswith("/info/lfs"):
        raise _refuse(field, 'a name that does not end in "/info/lfs", which is a part of addresses')


def check_ref_patterns(field: str, patterns: Iterable[str]) -> list[str]:
    """Return the distinct patterns. Raise `InvalidArgument` for more than 100, and for a pattern that is not valid.

    A valid pattern has 1 to 255 characters, and a ref can match it: a pattern that matches nothing would look like a
    grant and give nothing.
    """
    distinct = list(dict.fromkeys(patterns))
    if len(distinct) > _PATTERNS:
        raise _refuse(field, f"at most {_PATTERNS} patterns")
    if any(not pattern or len(pattern) > _PATTERN_CHARACTERS or "\0" in pattern for pattern in distinct):
        raise _refuse(field, f"patterns of 1 to {_PATTERN_CHARACTERS} characters without NUL")
    for pattern in distinct:
        _check_ref_pattern(field, pattern)
    return distinct


def check_lock_spaces(field: str, rules: Iterable[str]) -> list[str]:
    """Return the distinct rules `PATTERN=SPACE`. Raise `InvalidArgument` for more than 100, and for one that is none.

    A space is a name, `per-ref` or `default`; see `locking.spaces`.
    """
    pairs = [rule.rpartition("=") for rule in dict.fromkeys(rules)]
    if len(pairs) > _PATTERNS:
        raise _refuse(field, f"at most {_PATTERNS} rules")
    for pattern, equals, name in pairs:
        if not (equals and pattern) or not _NAME.fullmatch(name):
            raise _refuse(field, "rules such as refs/heads/release/*=per-ref, or with a name of 1 to 64 characters")
        check_ref_patterns(field, [pattern])
    return ["".join(pair) for pair in pairs]


def _check_ref_pattern(field: str, pattern: str) -> None:
    if not pattern.startswith("refs/"):
        meant = f"refs/heads/{pattern}"
        example = meant if matches_any_ref(meant) else "refs/heads/main"
        raise _refuse(field, f'patterns that begin with "refs/", such as {example}')
    if "[" in pattern:
        raise _refuse(field, 'no "[", which is in no ref: "*" is any characters, and "?" is any one')
    if not matches_any_ref(pattern):
        raise _refuse(
            field,
            "patterns that a ref of git can match: without spaces, control characters, any of ~ ^ : \\, "
            '"..", "@{", "//", "/" or "." at the end, and parts that begin with "." or end with ".lock"',
        )


def check_note(field: str, text: str) -> None:
    """Raise `InvalidArgument` unless `text`, a note or a reason, is at most 500 characters without NUL."""
    if len(text) > _NOTE_CHARACTERS or "\0" in text:
        raise _refuse(field, f"at most {_NOTE_CHARACTERS} characters without NUL")


def check_reason(reason: str) -> None:
    """Raise `InvalidArgument` unless `reason` is a text that `check_note` accepts, and not only spaces."""
    check_note("reason", reason)
    if not reason.strip():
        raise _refuse("reason", f"1 to {_NOTE_CHARACTERS} characters, got none")


def check_idempotency_key(key: str) -> None:
    """Raise `InvalidArgument` unless `key` is at most 64 characters without NUL."""
    if len(key) > 64 or "\0" in key:
        raise _refuse("idempotency_key", "at most 64 characters without NUL")
