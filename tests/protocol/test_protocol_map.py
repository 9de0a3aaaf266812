"""A check of docs/protocol.md: the page names only what exists, and every test of this folder."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from services.conformance.catalog import CATALOG

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "protocol.md").read_text()
FUNCTIONS = sorted(set(re.findall(r"`((?:facade|locks|storage|common)(?:\.\w+)+:[\w.]+)`", PAGE)))
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


def test_the_page_names_functions_and_tests() -> None:
    """A page that names nothing would pass the other tests of this module, so its functions and tests are counted."""
    assert len(FUNCTIONS) > 50
    assert len(TESTS) > 200


@pytest.mark.parametrize("function", FUNCTIONS)
def test_every_function_that_the_page_names_exists(function: str) -> None:
    """A function that is renamed or removed must not leave a dead reference in docs/protocol.md."""
    module, name = function.split(":")
    path = ROOT.joinpath("services", *module.split(".")).with_suffix(".py")
    assert name in definitions(ast.parse(path.read_text()).body)


def test_the_page_names_every_test_of_the_contract_and_no_other() -> None:
    """A test that docs/protocol.md leaves out or misnames is a gap in the map from rows to tests.

    Cases name their rows themselves (`test_conformance.py`), and are on the page where no test says more.
    """
    found = set()
    for path in Path(__file__).parent.glob("test_*.py"):
        if path.name != Path(__file__).name and not path.stem.startswith("test_conformance"):
            for name in definitions(ast.parse(path.read_text()).body):
                if name.startswith("test_"):
                    found.add(f"{path.stem.removeprefix('test_')}/{name.removeprefix('test_')}")
    assert sorted(TESTS - found - CASES) == []
    assert sorted(found - TESTS) == []


def test_every_table_row_of_the_page_names_a_test() -> None:
    """A row without a test is an unchecked promise, so a row either names a test or points to another section."""
    rows = [line for line in PAGE.splitlines() if line.startswith("| ") and not line.startswith("|---")]
    headings = ("| Row |", "| Rule |", "| Operation |", "| Status |", "| Code |", "| Trap |")
    for row in rows:
        if not row.startswith(headings):
            assert re.search(r"`\w+/\w+`", row) or "see " in row, row
