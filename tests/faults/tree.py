"""A copy of the checkout, in which faults are planted; the checkout itself is never touched."""

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from tests.faults.fault import Fault

ROOT = Path(__file__).parents[2]


@contextmanager
def copied_tree() -> Iterator[Path]:
    """Yield a clone of the checkout, with what is not committed there; remove it at the end."""
    with tempfile.TemporaryDirectory(prefix="towpath-faults-") as folder:
        # The account as which Towpath runs where root has started it reads the sources in place.
        Path(folder).chmod(0o755)
        tree = Path(folder).resolve() / "tree"
        subprocess.run(["git", "clone", "--quiet", "--shared", str(ROOT), str(tree)], check=True)
        listing = ["git", "-C", str(ROOT), "ls-files", "-z", "--modified", "--others", "--exclude-standard"]
        changed = subprocess.run(listing, check=True, capture_output=True, text=True).stdout
        for name in filter(None, changed.split("\0")):
            target = tree / name
            if (ROOT / name).exists():
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(ROOT / name, target)
            else:
                target.unlink(missing_ok=True)
        yield tree


def environment(tree: Path) -> Mapping[str, str]:
    """Return the environment in which Python imports the tree. Raises RuntimeError if an installation comes first."""
    # An editable installation is asked last, also by `python -P -m`, by which `towpath up` starts the services.
    variables = {**os.environ, "PYTHONPATH": os.pathsep.join((str(tree), str(tree / "proto" / "gen")))}
    command = [sys.executable, "-P", "-c", "import services, towpath; print(services.__file__, towpath.__file__)"]
    told = subprocess.run(command, env=variables, cwd=tree.parent, check=True, capture_output=True, text=True).stdout
    if not all(Path(file).is_relative_to(tree) for file in told.split()):
        raise RuntimeError(f"Python imports {told.strip()}, expected the modules of {tree}")
    return variables


@contextmanager
def planted(tree: Path, fault: Fault) -> Iterator[None]:
    """Plant a fault, and take it out at the end."""
    file = tree / "services" / fault.path
    sound = file.read_text()
    file.write_text(sound.replace(fault.old, fault.new))
    try:
        yield
    finally:
        file.write_text(sound)
