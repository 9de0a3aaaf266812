"""On what, and with what, it was measured."""

import os
import platform
import subprocess
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import psutil

from benchmarks.speed import programs
from services.cli import embedded_postgres

_ROOT = Path(__file__).parents[2]
_TOOLS = {"curl": "--version", "git": "--version", "git-lfs": "--version"}


def about(folder: Path) -> dict[str, Any]:
    """Return the machine with the file system that `folder` is on, the versions of the tools, and the commit."""
    tools = {name: programs.output_of(name, option).splitlines()[0] for name, option in _TOOLS.items()}
    return {
        "date": datetime.now(UTC).date().isoformat(),
        "commit": _commit(),
        "machine": {
            "cores": os.cpu_count(),
            "processor": _processor(),
            "memory_gib": round(psutil.virtual_memory().total / 2**30),
            "kernel": platform.release().partition("-")[0],
            "file_system": _file_system(folder),
        },
        "versions": {
            **tools,
            "wrk": _wrk(),
            "python": platform.python_version(),
            "postgres": programs.output_of(embedded_postgres.programs() / "postgres", "--version"),
        },
    }


def _commit() -> str:
    def git(*arguments: str) -> str:
        return programs.output_of("git", "-C", str(_ROOT), *arguments)

    try:
        changed = " with changes" if git("status", "--porcelain", "--", "services", "proto") else ""
        return git("rev-parse", "--short=12", "HEAD") + changed
    except (OSError, subprocess.SubprocessError):
        return "unknown"


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), platform.machine())


def _file_system(folder: Path) -> str:
    mounts = [part for part in psutil.disk_partitions(all=True) if folder.resolve().is_relative_to(part.mountpoint)]
    return max(mounts, key=lambda part: len(part.mountpoint)).fstype if mounts else "unknown"


def _wrk() -> str:
    # It prints its version together with its usage, and fails.
    command = [programs.find("wrk") or "wrk", "--version"]
    told = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)  # noqa: S603 - our own command
    return " ".join(told.stdout.split()[:2])
