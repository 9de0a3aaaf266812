"""A check of docs/protocol.md: the page names only what exists, and every test of this folder."""

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from services.conformance.catalog import CATALOG
from tests.support.sources import ROOT, fail_with, text

PAGE = text(ROOT / "docs" / "protocol.md")
FUNCTIONS = set(re.findall(r"`((?:facade|locks|storage|common)(?:\.\w+)+:[\w.]+)`", PAGE))
TESTS = set(re.findall(r"`(\w+/\w+)`", PAGE))
CASES = {case.id for case in CATALOG}


def definitions(body: list[ast.stmt], prefix: str = "") -> Iterator[str]:
    """Yield the names of the functions, classes and methods that a module defines."""
    for node in body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield prefix + node.name
        elif isinstance(node, ast.ClassDef):
            yield prefix + node.name
            yield from definitions(node.body, f"{prefix}{node.name}.")


@cache
def defined(path: Path) -> set[str]:
    """Return the names that a module defines."""
    return set(definitions(ast.parse(text(path)).body)) if path.is_file() else set()


def test_the_page_names_functions_and_tests() -> None:
    """A page that names nothing would pass the other tests of this module, so its functions and tests are counted."""
    assert len(FUNCTIONS) > 50
    assert len(TESTS) > 200


def exists(function: str) -> bool:
    """Return whether there is a function, which is named as `facade.locks:create`."""
    module, name = function.split(":")
    return name in defined(ROOT.joinpath("services", *module.split(".")).with_suffix(".py"))


def test_every_function_that_the_page_names_exists() -> None:
    """A function that is renamed or removed must not leave a dead reference in docs/protocol.md."""
    fail_with(function for function in sorted(FUNCTIONS) if not exists(function))


def test_the_page_names_every_test_of_the_contract_and_no_other() -> None:
    """A test that docs/protocol.md leaves out or misnames is a gap in the map from rows to tests.

    Cases name their rows themselves (`test_conformance.py`), and are on the page where no test says more.
    """
    found = set()
    for path in Path(__file__).parent.glob("test_*.py"):
        if path.name != Path(__file__).name and not path.stem.startswith("test_conformance"):
            tests = {name.removeprefix("test_") for name in defined(path) if name.startswith("test_")}
            found |= {f"{path.stem.removeprefix('test_')}/{name}" for name in tests}
    wrong, missing = sorted(TESTS - found - CASES), sorted(found - TESTS)
    fail_with([*(f"only the page has {test}" for test in wrong), *(f"the page lacks {test}" for test in missing)])


def test_every_table_row_of_the_page_names_a_test() -> None:
    """A row without a test is an unchecked promise, so a row either names a test or points to another section."""
    headings = ("| Row |", "| Rule |", "| Operation |", "| Status |", "| Code |", "| Trap |")
    rows = [line for line in PAGE.splitlines() if line.startswith("| ") and not line.startswith(headings)]
    fail_with(row for row in rows if not re.search(r"`\w+/\w+`|see ", row))
