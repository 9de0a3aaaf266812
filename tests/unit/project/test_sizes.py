"""Files stay small enough to be read at a glance."""

from tests.support.sources import SERVICES, fail_with, name, text


def test_no_file_is_over_300_lines() -> None:
    """A file of services has at most 300 lines."""
    sizes = {name(path): len(text(path).splitlines()) for path in SERVICES}
    fail_with(f"{path}: {lines} lines" for path, lines in sizes.items() if lines > 300)
