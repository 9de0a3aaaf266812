"""Programs that are run; those of Towpath in processes forked from one that has imported them already."""

import multiprocessing
import os
import runpy
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from multiprocessing.process import BaseProcess
from pathlib import Path

from tests.support.waiting import STEP_SECONDS

_FORKING = multiprocessing.get_context("forkserver")
_FORKING.set_forkserver_preload([__name__, "tests.support.preloaded"])


def finished(
    command: Sequence[str | Path],
    *,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    seconds: float = STEP_SECONDS,
) -> subprocess.CompletedProcess[str]:
    """Run a command to its end, well or not, and return its status and output.

    `sys.executable -m services.MODULE` runs in a process of its own, as any other command, but spares the start of
    Python and the imports, which take ten times as long as most commands. Raises `subprocess.TimeoutExpired` when time
    is up.
    """
    if list(command[:2]) == [sys.executable, "-m"] and str(command[2]).startswith("services."):
        return _forked([str(part) for part in command[2:]], cwd or Path.cwd(), dict(env or os.environ), seconds)
    return subprocess.run(command, cwd=cwd, env=env, capture_output=True, text=True, timeout=seconds, check=False)


def _forked(command: list[str], cwd: Path, env: dict[str, str], seconds: float) -> subprocess.CompletedProcess[str]:
    with tempfile.TemporaryDirectory() as folder:
        outputs = [Path(folder, name) for name in ("stdout", "stderr")]
        process = _started(command, cwd, env, outputs)
        process.join(seconds)
        if process.exitcode is None:
            process.kill()
            process.join()
            raise subprocess.TimeoutExpired(command, seconds)
        output, errors = (path.read_text() for path in outputs)
        return subprocess.CompletedProcess(command, process.exitcode, output, errors)


class Forked:
    """A module of Towpath that runs in a forked process, with what `subprocess.Popen` says and does of one."""

    def __init__(self, command: Sequence[str], log: Path, *, env: Mapping[str, str]) -> None:
        self._process = _started(list(command), Path.cwd(), dict(env), [log, log])

    @property
    def pid(self) -> int:
        """The id of the process."""
        assert self._process.pid is not None
        return self._process.pid

    def poll(self) -> int | None:
        """Return the exit status, negative for a signal; None while the process runs."""
        return self._process.exitcode

    def send_signal(self, number: int) -> None:
        """Send a signal."""
        os.kill(self.pid, number)

    def kill(self) -> None:
        """Kill the process if it still runs."""
        self._process.kill()

    def wait(self, seconds: float) -> int:
        """Wait for the end, and return the exit status."""
        self._process.join(seconds)
        status = self._process.exitcode
        assert status is not None, f"not ended within {seconds} s"
        return status


def _started(command: list[str], cwd: Path, env: dict[str, str], outputs: list[Path]) -> BaseProcess:
    # A test that fails may leave it running, and the run must end all the same.
    process = _FORKING.Process(target=_run, args=(command, cwd, env, outputs), daemon=True)
    process.start()
    return process


def _run(command: list[str], cwd: Path, env: dict[str, str], outputs: list[Path]) -> None:
    for number, path in enumerate(outputs, 1):
        descriptor = os.open(path, os.O_CREAT | os.O_WRONLY | os.O_APPEND)
        os.dup2(descriptor, number)
        os.close(descriptor)
    os.environ.clear()
    os.environ.update(env)
    os.chdir(cwd)
    sys.argv = command
    runpy.run_module(command[0], run_name="__main__", alter_sys=True)
