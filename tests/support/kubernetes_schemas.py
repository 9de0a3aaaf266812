"""JSON schemas of Kubernetes' kinds, as kubeconform reads them: `python -m tests.support.kubernetes_schemas FOLDER`.

Those of Kubernetes itself are in a package of PyPI, which is unpacked and not installed because it has many more. Those
of the Prometheus operator and of the Gateway API are made of the CRDs in their Go modules. What is there stays.
"""

import json
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path
from typing import Any

import yaml

PACKAGE = "kubernetes-validate==1.37.0 --hash=sha256:85136d018a27b50ec7fc049d902bfa5193f5976807e6c0f408e3ab6fe078cad9\n"
VERSIONS = ("1.27.0", "1.37.0")
"""The oldest Kubernetes of the chart, and the newest of the package."""

MODULES = {
    "github.com/prometheus-operator/prometheus-operator@v0.85.0": "example/prometheus-operator-crd/"
    "monitoring.coreos.com_{}.yaml servicemonitors prometheusrules",
    "sigs.k8s.io/gateway-api@v1.6.3": "config/crd/standard/gateway.networking.k8s.io_{}.yaml httproutes",
}
_SECONDS = 600


def _command(*command: str) -> str:
    ended = subprocess.run(command, check=False, capture_output=True, text=True, timeout=_SECONDS)
    if ended.returncode:
        raise RuntimeError(f"{' '.join(command)}: {(ended.stderr or ended.stdout).strip()}")
    return ended.stdout


def _put_kinds(folder: Path) -> None:
    with tempfile.TemporaryDirectory() as work:
        listed = Path(work) / "listed.txt"
        listed.write_text(PACKAGE)
        _command(
            *(sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps"),
            *("--require-hashes", "--dest", work, "--requirement", str(listed)),
        )
        [wheel] = Path(work).glob("*.whl")
        with zipfile.ZipFile(wheel) as packed:
            for version in VERSIONS:
                inside = f"kubernetes_validate/kubernetes-json-schema/v{version}-local-strict/"
                (folder / f"v{version}").mkdir(parents=True)
                for name in packed.namelist():
                    if name.startswith(inside) and name.endswith(".json"):
                        # The package gives its schemas addresses that only its own code knows.
                        schema = json.loads(packed.read(name).replace(b'"/api/', b'"'))
                        schema.pop("$id", None)
                        (folder / f"v{version}" / name.removeprefix(inside)).write_text(json.dumps(schema))


def strict(schema: Any) -> Any:  # noqa: ANN401 - a part of a schema is anything
    """Return a schema of a CRD as one of JSON that accepts no field that it does not name."""
    if isinstance(schema, list):
        return [strict(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    made = {name: strict(value) for name, value in schema.items()}
    if made.pop("x-kubernetes-int-or-string", False) is True:
        made.pop("type", None)
        made["anyOf"] = [{"type": "integer"}, {"type": "string"}]
    kept = made.get("x-kubernetes-preserve-unknown-fields") is True
    # `properties` may also be the name of a field, whose value then has no `type`.
    if made.get("type") == "object" and "properties" in made and not kept:
        made.setdefault("additionalProperties", False)
    return made


def _put_crds(folder: Path) -> None:
    for module, files in MODULES.items():
        pattern, *names = files.split()
        where = Path(json.loads(_command("go", "mod", "download", "-json", module))["Dir"])
        for name in names:
            crd = yaml.safe_load((where / pattern.format(name)).read_text())["spec"]
            for version in crd["versions"]:
                path = folder / crd["group"] / f"{crd['names']['singular']}_{version['name']}.json"
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(json.dumps(strict(version["schema"]["openAPIV3Schema"])))


def main() -> int:
    """Make the folder if it is not there; return the exit status."""
    folder = Path(sys.argv[1])
    if folder.is_dir():
        return 0
    sys.stderr.write("Bringing the schemas of Kubernetes ...\n")
    new = folder.with_name(f"{folder.name}.new")
    shutil.rmtree(new, ignore_errors=True)
    try:
        _put_kinds(new)
        _put_crds(new / "crds")
    except (RuntimeError, OSError, subprocess.TimeoutExpired) as error:
        sys.stderr.write(f"the schemas of Kubernetes: {error}\n")
        return 1
    new.rename(folder)
    return 0


if __name__ == "__main__":
    sys.exit(main())
