"""How much is measured."""

from dataclasses import dataclass

_KIBIBYTE, _MEBIBYTE, _GIBIBYTE = 2**10, 2**20, 2**30


@dataclass(frozen=True)
class Scale:
    """Sizes are in bytes."""

    seconds: int
    """How long each load of small requests goes on."""
    small: int
    medium: int
    large: int
    held: int
    """How many small objects a server holds that is asked for them."""
    puts: int
    """How many small objects are uploaded at most."""
    files: int
    """How many of them are in a git repository."""
    divisor: int
    """By what the numbers of locks and objects are divided that are there already."""

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
"""What the rows speak of."""

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
