"""Generate the Python stubs of the .proto files: `python proto/generate.py [OUT]`, by default into proto/gen."""

import sys
import sysconfig
from pathlib import Path

import grpc_tools
from grpc_tools import protoc

PROTO = Path(__file__).parent


def generate(out: Path) -> None:
    """Write messages, services and their types below `out`, with the packages that make them importable."""
    sources = sorted(str(path.relative_to(PROTO)) for path in PROTO.glob("towpath/**/*.proto"))
    well_known = Path(grpc_tools.__file__).parent / "_proto"
    outputs = [f"--{kind}_out={out}" for kind in ("python", "grpc_python", "mypy", "mypy_grpc")]
    scripts = Path(sysconfig.get_path("scripts"))
    plugins = [f"--plugin={name}={scripts / name}" for name in ("protoc-gen-mypy", "protoc-gen-mypy_grpc")]
    if protoc.main(["protoc", f"-I{PROTO}", f"-I{well_known}", *plugins, *outputs, *sources]) != 0:
        sys.exit("protoc failed")
    for source in sources:
        for package in [out / Path(source).parent, *(out / Path(source).parent).parents]:
            if package == out:
                break
            (package / "__init__.py").touch()
    (out / "towpath" / "py.typed").touch()


if __name__ == "__main__":
    target = Path(sys.argv[1]) if len(sys.argv) > 1 else PROTO / "gen"
    target.mkdir(parents=True, exist_ok=True)
    generate(target)
