"""The examples of the documentation, as the tests run them."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]


def snippet(page: str, name: str) -> str:
    """Return the block of a page under `docs/` that stands below `<!-- test: NAME -->`."""
    text = (ROOT / "docs" / page).read_text()
    found = re.findall(rf"^<!-- test: {re.escape(name)} -->\n```\w+\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    assert len(found) == 1, f"{page}: expected one block named {name}, found {len(found)}"
    return str(found[0])


def replaced(text: str, *changes: tuple[str, str]) -> str:
    """Return a text with these changes, each of something that really is in it."""
    for old, new in changes:
        assert old in text, f"not in the text: {old}"
        text = text.replace(old, new)
    return text
