"""Messages of `make test` about missing programs, before the tests begin."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.commands import finished
from tests.support.programs import DRILLS, TESTS

ROOT = Path(__file__).parents[3]


def listed(folder: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """Make the list on a computer where no program is to be found, by a Python outside of any virtual environment's."""
    code = "import sys; sys.prefix = '/nowhere'; from tests.support import programs; sys.exit(programs.main())"
    return finished(
        [sys.executable, "-c", code],
        cwd=ROOT,
        env={**{name: value for name, value in os.environ.items() if name != "CI"}, "PATH": str(folder), **environment},
        seconds=60,
    )


def test_continuous_integration_does_not_go_without_the_real_client(tmp_path: Path) -> None:
    """A run that silently tests less than it did is taken for a good one."""
    done = listed(tmp_path, CI="true")
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1].startswith("git-lfs is not here")
    assert "  gcc " in done.stderr


@pytest.mark.skipif(os.geteuid() == 0, reason="root can install it, and does not go without")
def test_others_are_told_and_go_on(tmp_path: Path) -> None:
    """A developer who cannot install git-lfs must be able to run all the other tests."""
    done = listed(tmp_path)
    assert done.returncode == 0
    assert "  git-lfs " in done.stderr


def test_files_of_the_list_are_there() -> None:
    """The list names the tests by their files."""
    named = {path for skipped in (TESTS | DRILLS).values() for path in re.findall(r"tests/[\w/*.]*\w", skipped)}
    assert len(named) > 5
    assert not [path for path in named if not [*ROOT.glob(path)]]
