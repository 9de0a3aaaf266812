"""`pip install towpath`: the typed stubs for other services, and not the server's packages."""

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tests.support.commands import finished
from tests.support.outside import ROOT, Outside
from tests.support.waiting import LONG_SECONDS

pytestmark = pytest.mark.drill

EXAMPLES = ROOT / "examples" / "python"
TYPES = ["types-grpcio", "types-grpcio-reflection", "types-grpcio-status", "types-protobuf"]
IMPORTS = """
import importlib, pkgutil, sys, towpath
for module in pkgutil.walk_packages(towpath.__path__, "towpath."):
    importlib.import_module(module.name)
assert {"towpath.access.v1", "towpath.locks.v1", "towpath.storage.v1"} <= sys.modules.keys()
print(*sorted({name.partition(".")[0] for name in sys.modules} & {"services", "pydantic", "fastapi", "sqlalchemy"}))
"""
UNTYPED = """
from towpath.locks.v1 import lock_service_pb2 as pb
lock: int = pb.Lock(path=1).path
"""


def test_the_wheel_carries_the_stubs_and_their_types(wheel: Path) -> None:
    """Every file of proto/gen/towpath is in it, `py.typed` and the `.pyi` included, and no test and no example."""
    with zipfile.ZipFile(wheel) as archive:
        names = {name for name in archive.namelist() if ".dist-info/" not in name}
    generated = ROOT / "proto" / "gen"
    stubs = {
        str(path.relative_to(generated))
        for path in generated.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert {"towpath/py.typed", "towpath/locks/v1/lock_service_pb2.pyi"} <= stubs
    assert {name for name in names if name.startswith("towpath/")} == stubs
    assert {name.partition("/")[0] for name in names} == {"towpath", "services"}


def test_only_grpcio_and_protobuf_come_with_it(bare: Outside) -> None:
    """Nothing else is installed but what grpcio itself needs, and importing the stubs imports no service."""
    assert bare.installed() == {"towpath", "grpcio", "protobuf", "typing_extensions"}
    done = bare.run("-c", IMPORTS)
    assert done.returncode == 0, done.stderr.decode()
    assert done.stdout.decode().split() == []


@pytest.mark.parametrize("arguments", [("towpath",), ("python", "-m", "services.cli")], ids=["command", "module"])
def test_the_command_says_what_it_needs(bare: Outside, arguments: tuple[str, ...]) -> None:
    """Without the server's packages `towpath` ends with one line that names the extra, and exit status 1."""
    done = bare.run(*arguments[1:], "--help", program=arguments[0])
    assert done.returncode == 1
    assert done.stdout == b""
    (line,) = done.stderr.decode().splitlines()
    assert line.startswith("towpath: ")
    assert "pip install 'towpath[server]'" in line


@pytest.mark.parametrize("arguments", [("towpath",), ("python", "-P", "-m", "services.cli")], ids=["command", "module"])
def test_a_folder_named_services_is_not_imported(bare: Outside, tmp_path: Path, arguments: tuple[str, ...]) -> None:
    """Many projects have a package `services`; beside it, the installed command and the modules are still Towpath's."""
    (tmp_path / "services").mkdir()
    (tmp_path / "services" / "__init__.py").write_text("raise SystemExit('not Towpath')")
    done = bare.run(*arguments[1:], "--version", program=arguments[0], folder=tmp_path)
    assert "pip install 'towpath[server]'" in done.stderr.decode()


def test_the_examples_are_typed_by_the_installed_stubs(furnished: Outside, tmp_path: Path) -> None:
    """`mypy --strict` finds nothing in the examples, and finds a wrong field where there is one."""
    pip = [sys.executable, "-m", "pip", "--python", str(furnished.python), "install", "--quiet", *TYPES]
    subprocess.run(pip, check=True, timeout=LONG_SECONDS)

    def mypy(*files: str, folder: Path) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "mypy", "--strict", "--python-executable", str(furnished.python)]
        command += ["--config-file=", "--no-incremental", f"--cache-dir={tmp_path / 'cache'}", *files]
        return finished(command, cwd=folder, seconds=LONG_SECONDS)

    done = mypy(*sorted(path.name for path in EXAMPLES.glob("*.py")), folder=EXAMPLES)
    assert done.returncode == 0, done.stdout + done.stderr
    (tmp_path / "wrong.py").write_text(UNTYPED)
    wrong = mypy("wrong.py", folder=tmp_path)
    assert wrong.returncode == 1
    assert "[arg-type]" in wrong.stdout
    assert "[assignment]" in wrong.stdout
