"""The command of a measurement that the notes tell of: it measures, prints a table, and keeps the figures."""

import argparse
import json
import os
import signal
import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from benchmarks.speed.scale import FULL, QUICK, Scale


def measure(
    description: str | None,
    take: Callable[[Scale, Path], dict[str, Any]],
    table: Callable[[Mapping[str, Any]], str],
    file: Path,
) -> None:
    """Take figures in a new folder, print a table of them, and write them to `file`, or not where `--quick` is told."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--quick", action="store_true", help="does it work? Nothing is written")
    quick = parser.parse_args().quick
    # So that all servers are stopped, and the folder removed, as at Ctrl-C.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    with tempfile.TemporaryDirectory(prefix="towpath-benchmark-") as folder:
        told = take(QUICK if quick else FULL, Path(folder).resolve())
    print(table(told))
    if not quick:
        file.write_text(json.dumps(told, indent=1) + os.linesep)
