"""The time that each lane of the tests takes: `python -m benchmarks.lanes [quick check test drill]`.

It prints a table. Run it on a machine with nothing else to do, after `make drill` has installed what the lanes need.
"""

import re
import resource
import subprocess
import sys
import time

LANES = ("quick", "check", "test", "drill")
# pytest's last line; `check` runs pytest once, too.
_PASSED = re.compile(r"(\d+) passed")


def row(lane: str) -> str:
    """Run a lane and return its row: tests that passed, minutes, and minutes of processor time, children included."""
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    done = subprocess.run(["make", lane], capture_output=True, text=True, check=False)  # noqa: S603, S607 - our own lanes
    minutes = (time.monotonic() - began) / 60
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime) / 60
    assert done.returncode == 0, done.stdout[-5000:] + done.stderr[-5000:]
    return f"| `make {lane}` | {sum(map(int, _PASSED.findall(done.stdout)))} | {minutes:.1f} | {cpu:.1f} |"


def main() -> None:
    """Print the table."""
    print("| lane | tests | minutes | of processor time |\n|---|---|---|---|")
    for lane in sys.argv[1:] or LANES:
        print(row(lane), flush=True)


if __name__ == "__main__":
    main()
