"""The pages of docs/reference that are written from the code: `python -m release.reference` writes them anew."""

from collections.abc import Callable
from pathlib import Path

from release.reference import command_line, http, rpc

FOLDER = Path(__file__).parents[2] / "docs" / "reference"
PAGES: dict[str, Callable[[], str]] = {"http": http.page, "grpc": rpc.page, "cli": command_line.page}
"""Each page by its name, and the function that returns its text."""
