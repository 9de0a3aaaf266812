"""Positions in the events of a repository's locks, which lock services give and facades compare.

The events of a repository are numbered in stripes, each without a gap and in the order of commits (migration 0007). A
position is the last number of each stripe that a watcher knows. It is exact whatever the order of commits, and the same
events give the same position in every process.
"""

import re
from dataclasses import dataclass

_STRIPES = 16
_TEXT = re.compile(r"([0-9]{1,18})-([0-9]{1,18})-((?:[0-9]{0,18}\.){0,15}[0-9]{0,18})", re.ASCII)


@dataclass(frozen=True, slots=True)
class Position:
    """A position; `numbers` has one number for each stripe."""

    repository_id: int
    numbers: tuple[int, ...] = (0,) * _STRIPES

    @property
    def generation(self) -> int:
        """The generation of the repository's locks: one more than the number of their changes."""
        return 1 + sum(self.numbers)

    def __str__(self) -> str:
        """Return the text of the position; it begins with the generation."""
        numbers = ".".join(str(number or "") for number in self.numbers).rstrip(".")
        return f"{self.generation}-{self.repository_id}-{numbers}"

    def after(self, stripe: int, number: int) -> "Position":
        """Return the position after one more event."""
        return Position(self.repository_id, (*self.numbers[:stripe], number, *self.numbers[stripe + 1 :]))

    def stripe_before(self, later: "Position") -> int:
        """Return the stripe of the next event, given the position after it."""
        pairs = zip(self.numbers, later.numbers, strict=True)
        return next(stripe for stripe, (mine, its) in enumerate(pairs) if mine != its)

    def includes(self, other: "Position") -> bool:
        """Return whether every event up to `other` is up to this position too."""
        return self.repository_id == other.repository_id and all(
            mine >= its for mine, its in zip(self.numbers, other.numbers, strict=True)
        )


def parse_position(text: str) -> Position | None:
    """Return the position of a text; None if `Position` has not written the text."""
    match = _TEXT.fullmatch(text)
    if match is None:
        return None
    numbers = [int(number or 0) for number in match[3].split(".")]
    position = Position(int(match[2]), (*numbers, *(0,) * (_STRIPES - len(numbers))))
    return position if str(position) == text else None


def position_of(repository_id: int, changes: dict[int, int]) -> Position:
    """Return the position after all changes, given as the number of changes of each stripe."""
    return Position(repository_id, tuple(changes.get(stripe, 0) for stripe in range(_STRIPES)))
