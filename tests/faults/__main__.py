"""Plant faults in a copy of the tree, one at a time, and print which of them the tests catch.

    python -m tests.faults                       all faults, each against the tests that are likely to catch it
    python -m tests.faults --only journal-fsync  one fault
    python -m tests.faults --whole -n 2          the whole lane for each fault that the likely tests have not caught

A fault is caught if a test fails that passes without it. The first such test is named, with the seconds until its
failure. Tests of tests/unit/project do not count. The status is 0 if all faults that were chosen are caught. Arguments
that are not known here are those of pytest, such as `-m "not drill"`.
"""

import argparse
import signal
import sys
from collections import Counter
from collections.abc import Sequence

from tests.faults.fault import Fault, read_catalog
from tests.faults.tree import ROOT, copied_tree, environment
from tests.faults.trial import CATCHES, Runner, Verdict


def main() -> int:
    """Return the exit status: 1 if a fault was not caught, or no longer applies."""
    parser = argparse.ArgumentParser("tests.faults", description=__doc__, allow_abbrev=False)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--only", nargs="+", metavar="ID", help="try these faults only")
    parser.add_argument("--list", action="store_true", help="list the faults, and try none")
    parser.add_argument("--whole", action="store_true", help="run the rest of the lane if the likely tests pass")
    options, arguments = parser.parse_known_args()
    chosen = _chosen(options.only)
    # The finally blocks run, as at Ctrl-C.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    return _list(chosen) if options.list else _try(chosen, arguments, whole=options.whole)


def _chosen(ids: Sequence[str] | None) -> Sequence[Fault]:
    known = {fault.id: fault for fault in read_catalog()}
    if unknown := [id_ for id_ in ids or () if id_ not in known]:
        sys.exit(f"there is no fault {unknown[0]}; --list names all")
    return [known[id_] for id_ in ids] if ids else list(known.values())


def _list(faults: Sequence[Fault]) -> int:
    problems = {fault.id: problem for fault in faults if (problem := fault.problem(ROOT))}
    for fault in faults:
        print(f"{fault.id:<32} services/{fault.path}: {fault.rule}")
        if fault.id in problems:
            print(f"{'':<32} {Verdict.NOT_APPLICABLE}: {problems[fault.id]}")
    return int(bool(problems))


def _try(faults: Sequence[Fault], arguments: Sequence[str], *, whole: bool) -> int:
    verdicts: Counter[Verdict] = Counter()
    with copied_tree() as tree:
        runner = Runner(tree, environment(tree), arguments)
        for fault in faults:
            result = runner.try_fault(fault, whole=whole)
            verdicts[result.verdict] += 1
            told = f": {result.told}" if result.told else ""
            print(f"{fault.id:<32} {result.verdict} after {result.seconds:.0f} s{told}", flush=True)
    caught = sum(verdicts[verdict] for verdict in CATCHES)
    print(
        f"{caught} of {len(faults)} caught", *(f"{verdicts[one]} {one}" for one in Verdict if verdicts[one]), sep="; "
    )
    return int(caught < len(faults))


if __name__ == "__main__":
    sys.exit(main())
