"""Addresses that a cache serves: batches, objects and locks below the base address of a repository."""

import re
from dataclasses import dataclass
from enum import StrEnum
from urllib.parse import quote

from services.common.errors import NotFound
from services.facade.errors import Area
from services.facade.web.error_reasons import HttpReason

_SEGMENT = re.compile(r"(?!\.{1,2}$)[^\x00-\x1f\x7f\\�/]+")
_SAFE = "/:@!$&'()*+,;=~-._"
_MAX_CHARACTERS = 4_096


class Kind(StrEnum):
    """The part of the interface that an address belongs to."""

    BATCH = "batch"
    OBJECT = "object"
    LOCKS = "locks"


_PATTERNS = {
    Kind.BATCH: re.compile(r"(?P<base>(/.+)?)(?P<rest>/objects/batch)", re.DOTALL),
    Kind.OBJECT: re.compile(r"(?P<base>(/.+)?)(?P<rest>/objects/(?P<oid>[0-9a-f]{64}))", re.DOTALL),
    Kind.LOCKS: re.compile(r"(?P<base>(/.+?)?)(?P<rest>/locks(/[^/]*){0,3})", re.DOTALL),
}
_AREAS = {Kind.BATCH: Area.BATCH, Kind.OBJECT: Area.ACTIONS, Kind.LOCKS: Area.LOCKS}


@dataclass(frozen=True)
class Address:
    """An address below a repository.

    `base` is the decoded path of the repository, such as `/studio/film`, empty where the upstream is one repository;
    `path` is the encoded path of the resource at the upstream.
    """

    kind: Kind
    base: str
    path: str
    oid: str = ""

    def object_path(self, oid: str) -> str:
        """Return the path of an object of the same repository at this cache."""
        return f"{quote(self.base, safe=_SAFE)}/objects/{oid}"


def kind_of(path: str) -> Kind | None:
    """Return the part of the interface that a decoded path names, even one that no repository can have."""
    return next((kind for kind, pattern in _PATTERNS.items() if pattern.fullmatch(path)), None)


def area_of(path: str) -> Area:
    """Return the area that decides the status of the errors of a decoded path."""
    kind = kind_of(path)
    return Area.ELSEWHERE if kind is None else _AREAS[kind]


def parse(path: str) -> Address:
    """Return the address of a decoded path.

    The path that leads to the upstream is encoded anew, so that both read the same segments in it. Raises `NotFound`
    (ROUTE_NOT_FOUND) for any other path, and for one whose segments are not plain.
    """
    kind = kind_of(path)
    found = None if kind is None else _PATTERNS[kind].fullmatch(path)
    if kind is None or found is None or len(path) > _MAX_CHARACTERS:
        raise _not_served()
    # One slash at the end of a base address means nothing.
    base, rest = found["base"].removesuffix("/"), found["rest"]
    if not all(_SEGMENT.fullmatch(segment) for segment in f"{base}{rest}".split("/")[1:]):
        raise _not_served()
    return Address(kind, base, quote(f"{base}{rest}", safe=_SAFE), found["oid"] if kind is Kind.OBJECT else "")


def _not_served() -> NotFound:
    return NotFound(HttpReason.ROUTE_NOT_FOUND, "nothing is served at this address")
