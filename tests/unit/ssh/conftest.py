"""Fixtures that several of these files use."""

import os
from collections.abc import Iterator

import pytest


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    """The ends of a pipe: the one to read from, and the one to write to."""
    ends = os.pipe()
    yield ends
    for end in ends:
        os.close(end)
