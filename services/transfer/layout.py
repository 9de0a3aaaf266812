"""The oids in the paths of objects, however a server splits them into folders."""

from collections.abc import Sequence
from typing import NamedTuple

from services.cli.errors import CommandError
from services.common.oid import is_oid

_OID_DIGITS = 64
_MAX_LAYOUTS = 1000


class Layout(NamedTuple):
    """The path of an object by its oid: folders before it, pieces of it as folders, and then the rest, or all of it.

    `ab/cd/OID` is that of git-lfs and others, `ab/cd/REST` that of lfs-test-server, GitLab, Gitea and Forgejo.
    """

    before: tuple[str, ...]
    lengths: tuple[int, ...]
    is_whole: bool

    def path_of(self, oid: str) -> str:
        """Return the path of an object, with slashes."""
        pieces, start = list(self.before), 0
        for length in self.lengths:
            pieces.append(oid[start : start + length])
            start += length
        return "/".join((*pieces, oid if self.is_whole else oid[start:]))


OWN = Layout((), (2, 2), is_whole=True)
"""The layout of git-lfs, below `objects/`."""


class Layouts:
    """The layouts that a place turns out to have."""

    def __init__(self) -> None:
        self._found: dict[Layout, None] = {}

    def learn(self, parts: Sequence[str]) -> str | None:
        """Return the oid that the end of a path spells, and remember the layout; None for any other path.

        Raises `CommandError` for a place without any order.
        """
        oid = oid_of(parts)
        if oid is not None:
            self._found[_layout_of(parts, oid)] = None
            if len(self._found) > _MAX_LAYOUTS:
                raise CommandError("expected a folder for the first digits of the ids, such as ab/cd/ID")
        return oid

    def paths_of(self, oid: str) -> list[str]:
        """Return the paths at which an object may be."""
        return [layout.path_of(oid) for layout in self._found]


def oid_of(parts: Sequence[str]) -> str | None:
    """Return the oid that the end of a path spells, whole or in pieces such as `ab/cd/REST`; None for any other."""
    spelled = ""
    for part in reversed(parts):
        spelled = part + spelled
        if len(spelled) >= _OID_DIGITS:
            break
    return spelled if is_oid(spelled) else None


def _layout_of(parts: Sequence[str], oid: str) -> Layout:
    is_whole = parts[-1] == oid
    folders = list(parts[:-1])
    pieces: list[str] = []
    # As many folders as spell the beginning of the oid together.
    for count in range(1, len(folders) + 1):
        candidate = folders[-count:]
        if oid.startswith("".join(candidate)):
            pieces = candidate
        elif sum(map(len, candidate)) >= _OID_DIGITS:
            break
    before = folders[: len(folders) - len(pieces)]
    return Layout(tuple(before), tuple(map(len, pieces)), is_whole)
