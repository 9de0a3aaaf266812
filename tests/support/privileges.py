"""Privileges of a process, as the kernel reports them."""

from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

import psutil

_CAPABILITIES = ("CapInh", "CapPrm", "CapEff", "CapAmb")


def users_of(processes: Iterable[psutil.Process]) -> set[int]:
    """Return all user ids, real, effective and saved, that processes have or can take again."""
    found: set[int] = set()
    for process in processes:
        # A connection's process of Postgres may have ended since.
        with suppress(psutil.NoSuchProcess):
            found.update(process.uids())
    return found


def privileged(processes: Iterable[psutil.Process]) -> list[str]:
    """Return what each process has of root's privileges, or could get by a program with the set-user-ID bit."""
    found = []
    for process in processes:
        with suppress(FileNotFoundError, ProcessLookupError):
            lines = Path(f"/proc/{process.pid}/status").read_text().splitlines()
            status = {name: value.strip() for name, _, value in (line.partition(":") for line in lines)}
            if status["State"].startswith("Z"):
                continue
            held = [f"{name} {status[name]}" for name in _CAPABILITIES if int(status[name], 16)]
            held += ["no no_new_privs"] if status["NoNewPrivs"] != "1" else []
            held += ["uid 0"] if "0" in status["Uid"].split() else []
            found += [f"{status['Name']} ({process.pid}): {', '.join(held)}"] if held else []
    return found
