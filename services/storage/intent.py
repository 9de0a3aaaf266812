"""What a caller will do with objects."""

from enum import Enum, auto


class Intent(Enum):
    """What the caller will do with the objects."""

    NONE = auto()
    READ = auto()
    WRITE = auto()
