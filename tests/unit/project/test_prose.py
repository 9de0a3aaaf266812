"""Rules of the prose in docstrings (CONTRIBUTING.md)."""

import re

from tests.support.sources import MODULES, fail_with, name, text

# A docstring that begins so names a question instead of a thing.
QUESTION = re.compile(
    r'^ *r?"""\s*((?:What|How|Who|Whose|Whom|Whether|Where|Which|When|Why|By what|By whom)\b.*)', re.MULTILINE
)


def test_no_docstring_begins_with_a_question() -> None:
    """A docstring begins with a noun, by which a reader finds the thing."""
    # Released migrations never change.
    paths = [path for path in MODULES if path.parent.name != "versions"]
    fail_with(f"{name(path)}: {question}" for path in paths for question in QUESTION.findall(text(path)))
