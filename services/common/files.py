"""Open files as resources with one owner, and files that only their owner can read."""

import os
import resource
import stat
from pathlib import Path


def raise_file_limit() -> None:
    """Let this process open as many files as it may; the usual limit is meant for programs that call select."""
    _, max_files = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max_files, max_files))


class OwnedDescriptor:
    """The descriptor of an open file; `close` may be called at any time and more than once."""

    def __init__(self) -> None:
        self._number: int | None = None

    @property
    def is_open(self) -> bool:
        """True while a file is open."""
        return self._number is not None

    @property
    def number(self) -> int:
        """The descriptor. Raises ValueError if no file is open."""
        if self._number is None:
            raise ValueError("the file is not open")
        return self._number

    def adopt(self, number: int) -> None:
        """Close the current file, if any, and take ownership of an open descriptor."""
        self.close()
        self._number = number

    def open(self, path: Path | str, flags: int, mode: int = 0o600) -> None:
        """Open a file; programs that this process starts do not inherit it. Raises OSError."""
        self.adopt(os.open(path, flags | os.O_CLOEXEC, mode))

    def regular_size(self) -> int | None:
        """Return the size of a regular file in bytes; None for anything else, such as a FIFO."""
        status = os.fstat(self.number)
        return status.st_size if stat.S_ISREG(status.st_mode) else None

    def close(self) -> None:
        """Close the file, if one is open."""
        if self._number is not None:
            number, self._number = self._number, None
            os.close(number)


def write_secret(path: Path, text: str) -> None:
    """Write a file that only its owner can read, atomically and durably: a crash leaves the old file or the new one."""
    unfinished = path.with_name(f"{path.name}.new")
    unfinished.unlink(missing_ok=True)
    descriptor = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with open(descriptor, "w") as file:  # noqa: PTH123 - the file descriptor guarantees the mode
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    unfinished.rename(path)
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
