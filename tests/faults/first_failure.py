"""A plugin of pytest that writes the first failure to the file that `VARIABLE` names."""

import os
import re
from pathlib import Path

import pytest

VARIABLE = "FIRST_FAILURE_FILE"
HANG = "Timeout (>"

# `--dist=loadgroup` adds the name of the group to the id of a test.
_GROUP = re.compile(r"@[\w.-]+$")


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Note a test that has failed, or whose fixtures have."""
    _note(report)


def pytest_collectreport(report: pytest.CollectReport) -> None:
    """Note a module that cannot be imported."""
    _note(report)


def _note(report: pytest.TestReport | pytest.CollectReport) -> None:
    file = os.environ.get(VARIABLE)
    if report.failed and file and not Path(file).exists():
        suffix = f"\n{HANG}" if HANG in report.longreprtext else ""
        Path(file).write_text(_GROUP.sub("", report.nodeid) + suffix)
