"""The catalog of all cases, in the order in which they are run."""

from collections.abc import Sequence
from fnmatch import fnmatchcase

from services.conformance.case import Case
from services.conformance.cases import (
    actions,
    authentication,
    batch_download,
    batch_request,
    batch_upload,
    dialects,
    download,
    errors,
    lock_create,
    lock_delete,
    lock_list,
    lock_verify,
    upload,
    verify,
)

_MODULES = (
    batch_request,
    batch_download,
    batch_upload,
    actions,
    download,
    upload,
    verify,
    lock_create,
    lock_list,
    lock_verify,
    lock_delete,
    dialects,
    errors,
    authentication,
)
CATALOG: tuple[Case, ...] = tuple(
    found for module in _MODULES for found in vars(module).values() if isinstance(found, Case)
)
"""Every case. An id is that of one case."""


def select(patterns: Sequence[str]) -> list[Case]:
    """Return the cases of which the id matches one of the patterns, such as `lock_*`, or all without a pattern."""
    return [found for found in CATALOG if not patterns or any(fnmatchcase(found.id, pattern) for pattern in patterns)]
