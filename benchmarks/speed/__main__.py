"""Measure Towpath and what else is there, print a table, and write figures, charts and docs/performance.md."""

import signal
import sys
import tempfile
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path

from benchmarks.speed import machine, page, programs
from benchmarks.speed.options import Options, parse
from benchmarks.speed.results import Results
from benchmarks.speed.rounds import Rounds
from benchmarks.speed.servers import TOWPATH, Missing, Server, servers

_TOOLS = ("wrk", "curl", "git", "git-lfs")


def main() -> int:
    """Return the exit status: 1 where Towpath itself failed at something."""
    options = parse()
    # So that whatever runs is stopped, and the folder removed, as at Ctrl-C.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    lacking = [tool for tool in _TOOLS if programs.find(tool) is None]
    if lacking:
        sys.exit(f"not installed: {', '.join(lacking)}")
    with ExitStack() as owned:
        folder = Path(owned.enter_context(tempfile.TemporaryDirectory(prefix="towpath-benchmark-"))).resolve()
        results = Results({**machine.about(folder), "scale": asdict(options.scale), "rounds": options.rounds})
        found = _install(options, results, folder)
        Rounds(options, found, results, folder).run()
    print(page.tables(results))
    if options.is_whole:
        page.write(results)
    return int(any(TOWPATH in failed for failed in results.failures.values()))


def _install(options: Options, results: Results, folder: Path) -> list[Server]:
    """Return the servers that can be had; say in the results why the others cannot."""
    found = []
    for server in servers((options.keep or folder / "programs").resolve(), options.servers):
        try:
            results.about["versions"][server.name] = server.install()
            found.append(server)
        except Missing as missing:
            results.missing[server.name] = str(missing)
            sys.stderr.write(f"{server.name} is not compared: {missing}\n")
    return found


if __name__ == "__main__":
    sys.exit(main())
