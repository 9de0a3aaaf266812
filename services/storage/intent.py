"""The intent of a request."""

from enum import Enum, auto


class Intent(Enum):
    """The caller's intended use of the objects."""

    NONE = auto()
    READ = auto()
    WRITE = auto()
