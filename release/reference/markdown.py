"""Markdown of the pages: text that shows as it is written in the code, and tables."""

import re
from collections.abc import Iterable, Sequence

WRITTEN = "<!-- `make reference` writes this page; tests/unit/project/test_reference.py compares it. -->"
"""The first line of each page."""
_ACTIVE = re.compile(r"([*<\[|])")


def text(raw: str) -> str:
    """Return text on one line, of which Markdown takes nothing for markup but code in backticks."""
    parts = " ".join(raw.split()).split("`")
    # A bar ends a cell of a table in code, too.
    shown = [
        part.replace("|", r"\|") if number % 2 else _ACTIVE.sub(r"\\\1", part) for number, part in enumerate(parts)
    ]
    return "`".join(shown)


def paragraphs(raw: str) -> list[str]:
    """Return the paragraphs of a text, each followed by an empty line; a list stays one."""
    lines: list[str] = []
    for block in re.split(r"\n\s*\n", raw.strip()):
        if re.match(r"\s*\* ", block):
            lines += [f"* {text(item)}" for item in re.split(r"(?m)^\s*\* ", block) if item.strip()]
        elif block.strip():
            lines.append(text(block))
        lines.append("")
    return lines if raw.strip() else []


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """Return a table, followed by an empty line; nothing where it has no rows."""
    lines = ["|" + "".join(f" {cell} |" if cell else " |" for cell in row) for row in rows]
    return [f"| {' | '.join(head)} |", "|---" * len(head) + "|", *lines, ""] if lines else []


def document(title: str, lines: Iterable[str]) -> str:
    """Return the text of a page."""
    return "\n".join([WRITTEN, "", f"# {title}", "", *lines]).rstrip() + "\n"
