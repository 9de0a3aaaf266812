"""Scale of a run: durations, sizes and numbers."""

from dataclasses import dataclass

_KIBIBYTE, _MEBIBYTE, _GIBIBYTE = 2**10, 2**20, 2**30


@dataclass(frozen=True)
class Scale:
    """Sizes are in bytes."""

    seconds: int
    """The duration of each load of small requests."""
    small: int
    medium: int
    large: int
    held: int
    """The number of small objects in a server that is asked for them."""
    puts: int
    """The largest number of small objects that are uploaded."""
    files: int
    """The number of small objects in a git repository."""
    divisor: int
    """The divisor for the numbers of locks and objects that are there beforehand."""

    def level(self, named: int) -> int:
        """Return how many there are where a row speaks of so many."""
        return named // self.divisor


FULL = Scale(
    seconds=5,
    small=64 * _KIBIBYTE,
    medium=64 * _MEBIBYTE,
    large=_GIBIBYTE,
    held=1000,
    puts=25_000,
    files=2000,
    divisor=1,
)
"""The scale that the rows name."""

QUICK = Scale(
    seconds=3,
    small=64 * _KIBIBYTE,
    medium=_MEBIBYTE,
    large=8 * _MEBIBYTE,
    held=200,
    puts=400,
    files=20,
    divisor=20,
)
"""Just enough to see that everything works; the figures say nothing."""
