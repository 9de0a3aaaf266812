"""Open files as resources with one owner."""

import os
import stat
from pathlib import Path


class OwnedDescriptor:
    """The descriptor of an open file; `close` may be called at any time and more than once."""

    def __init__(self) -> None:
        self._number: int | None = None

    @property
    def is_open(self) -> bool:
        """Whether there is a file."""
        return self._number is not None

    @property
    def number(self) -> int:
        """The descriptor. Raises ValueError where no file is open."""
        if self._number is None:
            raise ValueError("the file is not open")
        return self._number

    def adopt(self, number: int) -> None:
        """Own an open descriptor in the place of the one before."""
        self.close()
        self._number = number

    def open(self, path: Path | str, flags: int, mode: int = 0o600) -> None:
        """Open a file, which no program that this process starts inherits. Raises OSError."""
        self.adopt(os.open(path, flags | os.O_CLOEXEC, mode))

    def regular_size(self) -> int | None:
        """Return the size of a regular file in bytes; None for anything else, such as a FIFO."""
        status = os.fstat(self.number)
        return status.st_size if stat.S_ISREG(status.st_mode) else None

    def close(self) -> None:
        """Close the file, if there is one."""
        if self._number is not None:
            number, self._number = self._number, None
            os.close(number)
