"""A real `towpath up`, as its own process tree, driven the way an operator does."""

import json
import os
import shutil
import signal
import ssl
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

import psutil

from tests.support.commands import finished
from tests.support.folders import temporary_folder
from tests.support.prepared import copy_prepared
from tests.support.seaweedfs import Prefix
from tests.support.waiting import START_SECONDS, STEP_SECONDS

new_bucket: Callable[[], Prefix | None] = lambda: None  # noqa: E731 - a default that tests replace
"""The function that gives a new stack its place for objects; None means the data folder."""

READY = "Towpath is ready: "
_PATIENT = {"TOWPATH_RPC_SECONDS": str(STEP_SECONDS)}
"""The setting with which a machine under load decides about no test: its disk may stand still for 12 s, too."""

TOWPATH = [sys.executable, "-m", "services.cli"]
ONE_FACADE = ("--demo", "--facades", "1")


@dataclass
class Stack:
    """A data folder and the `towpath up` that runs on it, if one does."""

    data: Path
    arguments: tuple[str, ...] = ("--demo",)
    environment: dict[str, str] = field(default_factory=dict)
    listen: str = "127.0.0.1:0"
    command: tuple[str, ...] = tuple(TOWPATH)
    folder: Path | None = None
    """The working directory of the command, if not that of the tests."""
    bucket: Prefix | None = None
    """The place of its objects, if not the data folder."""
    trust: ssl.SSLContext | bool = True
    """The authority that its clients trust, for a stack that is reached over TLS."""
    process: subprocess.Popen[str] | None = None
    origin: str = ""
    lines: list[str] = field(default_factory=list)

    def start(self, *, seconds: float = START_SECONDS) -> None:
        """Start it and wait for the line that says that it is ready."""
        log = (self.data.parent / f"{self.data.name}.log").open("ab")
        self.process = subprocess.Popen(
            [*self.command, "up", "--data", str(self.data), "--listen", self.listen, *self._storage, *self.arguments],
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            env={**_inherited(), **_PATIENT, **self._transfer, **self.environment},
            cwd=self.folder,
            start_new_session=True,
        )
        log.close()
        assert self.process.stdout is not None
        self.origin = ""
        ready = threading.Event()
        threading.Thread(target=self._read, args=(self.process.stdout, ready), daemon=True).start()
        if not ready.wait(seconds) or not self.origin:
            raise AssertionError(f"no ready line within {seconds} s; its log:\n{self.log()[-5000:]}")
        # A restart listens where it did before: the clients know no other address.
        self.listen = self.origin.partition("://")[2]

    @property
    def _storage(self) -> tuple[str, ...]:
        return ("--storage", self.bucket.url) if self.bucket is not None else ()

    @property
    def _transfer(self) -> dict[str, str]:
        return {"TOWPATH_STORAGE_TRANSFER": self.bucket.transfer} if self.bucket is not None else {}

    def _read(self, stdout: IO[str], ready: threading.Event) -> None:
        with stdout:
            for line in stdout:
                self.lines.append(line)
                if line.startswith(READY):
                    self.origin = line.removeprefix(READY).strip()
                    ready.set()
        ready.set()

    def log(self) -> str:
        """Return what it and all its services have logged."""
        return (self.data.parent / f"{self.data.name}.log").read_text(errors="replace")

    @property
    def demo(self) -> dict[str, Any]:
        """The document that `--demo` wrote: `base_url` and the tokens of `users`."""
        written: dict[str, Any] = json.loads((self.data / "demo.json").read_text())
        return written

    @property
    def base_url(self) -> str:
        """The base address of the demo repository."""
        return f"{self.origin}/demo/assets"

    @property
    def tokens(self) -> dict[str, str]:
        """The tokens of alice and bob."""
        tokens: dict[str, str] = self.demo["users"]
        return tokens

    def services(self, name: str) -> list[psutil.Process]:
        """Return the processes of a service, or of `postgres`; of that only the first of each host."""
        assert self.process is not None
        found = []
        for child in psutil.Process(self.process.pid).children(recursive=True):
            try:
                command = child.cmdline()
            except (psutil.NoSuchProcess, psutil.ZombieProcess):
                continue
            # One that is just becoming another program, or ending, has no command for a moment.
            program = Path(command[0]).name if command else ""
            if name == "postgres" and program == "postgres":
                return [child]
            if f"services.{name}" in command:
                found.append(child)
        return found

    def kill_service(self, name: str) -> list[psutil.Process]:
        """Kill all processes of a service, which runs, and return them."""
        processes = self.services(name)
        assert processes, f"{name} does not run"
        for process in processes:
            process.kill()
        return processes

    def service(self, name: str) -> psutil.Process:
        """Return the first process of `facade`, `storage`, `locks`, `ssh` or `postgres`."""
        found = self.services(name)
        assert found, f"{name} does not run"
        return found[0]

    def processes(self) -> list[psutil.Process]:
        """Return all its processes."""
        assert self.process is not None
        up = psutil.Process(self.process.pid)
        return [up, *up.children(recursive=True)]

    def towpath(self, *arguments: str, check: bool = True, seconds: float = STEP_SECONDS) -> Any:  # noqa: ANN401 - whatever JSON the command prints
        """Run an administrative command with --json, for so many seconds at most, and return what it prints, parsed."""
        result = finished([*TOWPATH, *arguments, "--data", str(self.data), "--json"], seconds=seconds)
        if check:
            assert result.returncode == 0, f"{arguments}: {result.stderr}"
        return json.loads(result.stdout) if result.stdout.strip() else None

    def stop(self, *, seconds: float = STEP_SECONDS) -> int:
        """Stop it with SIGTERM and return its exit status."""
        assert self.process is not None
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(seconds)

    def kill(self) -> None:
        """Kill every process of it at once, as a power cut would."""
        assert self.process is not None
        processes = self.processes()
        for process in processes:
            # A connection's process of Postgres may have ended since.
            with suppress(psutil.NoSuchProcess):
                process.kill()
        psutil.wait_procs(processes, timeout=STEP_SECONDS)
        self.process.wait(STEP_SECONDS)


def processes_of(data: Path) -> list[psutil.Process]:
    """Return all processes that were told of a data folder, whoever started them."""
    found = []
    for process in psutil.process_iter():
        try:
            told = [*process.cmdline(), *process.environ().values()]
        except psutil.Error:
            continue
        if any(str(data) in text for text in told):
            found.append(process)
    return found


@contextmanager
def running(stack: Stack) -> Iterator[Stack]:
    """Start a stack, and stop it at the end if it still runs."""
    try:
        stack.start()
        yield stack
    finally:
        if stack.process is not None and stack.process.poll() is None:
            stack.stop()


# Of one stack alone: the key differs in each, so that none accepts the links of another.
_OWN = ("run", "signing-key")


def copy_data(to: Path) -> None:
    """Copy a data folder that `towpath up --demo` has used: a start on it costs a third of one on an empty folder."""
    copy_prepared("data", _use_data, to)


def _use_data(data: Path) -> None:
    with running(Stack(data)):
        pass
    for path in (data / name for name in _OWN):
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)


def _inherited() -> dict[str, str]:
    """Return our environment; as root without coverage, because the services' account cannot read the checkout."""
    return {name: value for name, value in os.environ.items() if os.geteuid() or not name.startswith("COVERAGE_")}


@contextmanager
def running_stack(*arguments: str, environment: dict[str, str] | None = None) -> Iterator[Stack]:
    """Run a `towpath up` with these arguments, on a data folder of its own that has the demo.

    By default it has the demo and one facade, because a second one costs a sixth of the start.
    If a database is named, the folder is new: the tokens of the demo would be those of another database.
    """
    variables = environment or {}
    with temporary_folder() as folder:
        if "TOWPATH_DATABASE_URL" not in variables and not any("--database-url" in given for given in arguments):
            copy_data(folder / "var")
        with running(Stack(folder / "var", arguments or ONE_FACADE, variables, bucket=new_bucket())) as stack:
            yield stack
