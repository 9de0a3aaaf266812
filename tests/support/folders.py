"""Temporary folders that the account can enter as which Towpath runs where root has started it."""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def temporary_folder() -> Iterator[Path]:
    """Make a folder that everybody may enter, but only its owner may list, for as long as it is needed."""
    with tempfile.TemporaryDirectory(prefix="towpath-test-") as folder:
        Path(folder).chmod(0o711)
        yield Path(folder)
