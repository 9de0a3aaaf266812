"""The trial of one fault: pytest runs on the tree in which it is planted, up to the first failure."""

import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

import psutil

from tests.faults import first_failure
from tests.faults.fault import Fault
from tests.faults.tree import planted

SILENT_SECONDS = 1200.0
"""The time without any output after which a run of pytest counts as hanging."""

# Digests of released files and scans of the text would catch a fault without proving the rule.
_NO_PROOF = "tests/unit/project"
_LOOK_SECONDS = 2.0
_NO_TESTS = 5


class Verdict(StrEnum):
    """The result of a trial."""

    CAUGHT = "caught"
    HANG = "caught by a hang"
    NOT_LIKELY = "not caught by the likely tests"
    SURVIVED = "SURVIVED"
    FAILS_ANYWAY = "not tried: the test fails without the fault, too"
    NOT_APPLICABLE = "no longer applies"


CATCHES = (Verdict.CAUGHT, Verdict.HANG)


@dataclass(frozen=True)
class Result:
    """A verdict, its details, and the time that the runs took."""

    verdict: Verdict
    told: str = ""
    seconds: float = 0.0


@dataclass(frozen=True)
class _Failure:
    """The first failing test, with `hangs` if that is a timeout; the name is empty if pytest itself was silent."""

    test: str
    hangs: bool


@dataclass(frozen=True)
class Runner:
    """Runs pytest in a tree, with more arguments of the caller."""

    tree: Path
    environment: Mapping[str, str]
    arguments: Sequence[str]

    def try_fault(self, fault: Fault, *, whole: bool) -> Result:
        """Plant a fault and run its likely tests, and if these pass and `whole` is set, the rest of the lane."""
        if problem := fault.problem(self.tree):
            return Result(Verdict.NOT_APPLICABLE, problem)
        began = time.monotonic()
        likely = [f"tests/{path}" for path in fault.likely]
        with planted(self.tree, fault):
            failure = self._first_failure(likely)
            if failure is None and whole:
                failure = self._first_failure([argument for path in likely for argument in ("--deselect", path)])
        if failure is None:
            return Result(Verdict.SURVIVED if whole else Verdict.NOT_LIKELY, "", time.monotonic() - began)
        seconds = time.monotonic() - began
        if failure.hangs:
            return Result(Verdict.HANG, failure.test or "pytest", seconds)
        is_sound = self._first_failure([failure.test]) is None
        return Result(Verdict.CAUGHT if is_sound else Verdict.FAILS_ANYWAY, failure.test, seconds)

    def _first_failure(self, selected: Sequence[str]) -> _Failure | None:
        """Return the first failure; None if all tests pass. Raises RuntimeError if pytest cannot run them."""
        log, noted = self.tree.parent / "pytest.log", self.tree.parent / "first-failure"
        noted.unlink(missing_ok=True)
        options = ("-x", "-q", "--color=no", "-p", "no:cacheprovider", "-p", first_failure.__name__)
        command = [sys.executable, "-m", "pytest", *options, f"--ignore={_NO_PROOF}", *selected, *self.arguments]
        with log.open("wb") as output:
            process = psutil.Popen(
                command,
                cwd=self.tree,
                env={**self.environment, first_failure.VARIABLE: str(noted)},
                stdout=output,
                stderr=subprocess.STDOUT,
                stdin=subprocess.DEVNULL,
            )
        try:
            status = _status_of(process, log)
        finally:
            _end(process)
        if noted.exists():
            test, _, hang = noted.read_text().partition("\n")
            return _Failure(test, bool(hang))
        if status is None:
            return _Failure("", hangs=True)
        if status not in (0, _NO_TESTS):
            raise RuntimeError(f"pytest ended with {status}:\n{log.read_text(errors='replace')[-4000:]}")
        return None


def _status_of(process: psutil.Popen, log: Path) -> int | None:
    """Wait for the end of pytest, and return its status; None once it has written nothing for long."""
    size, since = -1, time.monotonic()
    while time.monotonic() - since < SILENT_SECONDS:
        try:
            return int(process.wait(_LOOK_SECONDS))
        except psutil.TimeoutExpired:
            if (now := log.stat().st_size) != size:
                size, since = now, time.monotonic()
    return None


def _end(process: psutil.Popen) -> None:
    """Kill pytest and all that it has started, if it still runs."""
    if process.poll() is not None:
        return
    for one in (*process.children(recursive=True), process):
        try:
            one.kill()
        except psutil.NoSuchProcess:
            continue
    process.wait()
