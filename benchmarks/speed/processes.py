"""Memory and CPU of a server's processes, by role."""

import threading
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import psutil

POSTGRES = "postgres"
_SERVICES = "services."
_SAMPLE_SECONDS = 0.2
_KIBIBYTES_IN_MEBIBYTE = 1024


def family(pid: int) -> dict[int, str]:
    """Return the processes that a process has started, and itself, by id, with what each is.

    That is the service that it runs, or the program; processes that a service starts are taken for parts of it.
    """
    found: dict[int, str] = {}
    try:
        _add(found, psutil.Process(pid), "")
    except psutil.NoSuchProcess:
        return {}
    return found


def _add(found: dict[int, str], process: psutil.Process, parent: str) -> None:
    try:
        role = _role(process) or parent or process.name()
        found[process.pid] = role
        for child in process.children():
            _add(found, child, role)
    except psutil.NoSuchProcess:
        return


def _role(process: psutil.Process) -> str | None:
    """Return the service that a process was started as, or that it is Postgres; None for any other."""
    command = process.cmdline()
    if command and Path(command[0].split(":")[0]).name == POSTGRES:
        return POSTGRES
    return next((part for part in command if part.startswith(_SERVICES)), None)


def memory(pid: int) -> dict[str, float]:
    """Return the mebibytes of a server: `own`, and `postgres` where it runs one.

    What processes share is counted once: each page in equal parts by those that map it.
    """
    together: dict[str, float] = {}
    for role, mebibytes in memory_by_role(pid).items():
        part = POSTGRES if role == POSTGRES else "own"
        together[part] = together.get(part, 0.0) + mebibytes
    return together


def memory_by_role(pid: int) -> dict[str, float]:
    """Return the mebibytes of each part of a server, by what `family` says that it is; see `memory`."""
    roles: Counter[str] = Counter()
    for process, role in family(pid).items():
        roles[role] += _pss(process)
    return {role: kibibytes / _KIBIBYTES_IN_MEBIBYTE for role, kibibytes in roles.items()}


def _pss(pid: int) -> int:
    """Return the proportional set size in KiB; 0 for one that has ended meanwhile."""
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except (FileNotFoundError, ProcessLookupError):
        return 0
    return next((int(line.split()[1]) for line in lines if line.startswith("Pss:")), 0)


@contextmanager
def watched_memory(pid: int) -> Iterator[dict[str, float]]:
    """Yield what becomes, during the block, the most that `memory` told of each part."""
    peak: dict[str, float] = {}
    over = threading.Event()

    def watch() -> None:
        while True:
            for part, mebibytes in memory(pid).items():
                peak[part] = max(peak.get(part, 0.0), mebibytes)
            if over.wait(_SAMPLE_SECONDS):
                return

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield peak
    finally:
        over.set()
        thread.join()


def cpu(pid: int) -> dict[str, tuple[float, float]]:
    """Return the seconds in user mode and in the system's that each part of a server took up to now.

    A child that has ended is counted with its parent.
    """
    spent: dict[str, tuple[float, float]] = {}
    for process, role in family(pid).items():
        try:
            times = psutil.Process(process).cpu_times()
        except psutil.NoSuchProcess:
            continue
        user, system = spent.get(role, (0.0, 0.0))
        spent[role] = (user + times.user + times.children_user, system + times.system + times.children_system)
    return spent


def difference(
    before: Mapping[str, tuple[float, float]], after: Mapping[str, tuple[float, float]]
) -> dict[str, tuple[float, float]]:
    """Return what each part took between two readings of `cpu`."""
    nothing = (0.0, 0.0)
    return {
        role: (user - before.get(role, nothing)[0], system - before.get(role, nothing)[1])
        for role, (user, system) in after.items()
    }
