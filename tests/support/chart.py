"""The chart of deploy/helm/towpath as helm renders it."""

import json
import subprocess
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from tests.support.programs import needed

ROOT = Path(__file__).parents[2]
CHART = ROOT / "deploy" / "helm" / "towpath"
EXAMPLES = sorted(CHART.glob("ci/*.yaml"))
RELEASE, NAMESPACE = "site", "studio"
_SECONDS = 120

Manifest = dict[str, Any]


def _helm_template(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [needed("helm"), "template", RELEASE, str(CHART), "--namespace", NAMESPACE, *arguments]
    return subprocess.run(command, check=False, capture_output=True, text=True, timeout=_SECONDS)


@cache
def rendered(values: Path, *switches: str) -> tuple[Manifest, ...]:
    """Return the manifests that these values make; `switches` are further ones, as `facade.replicas=3`."""
    more = [part for switch in switches for part in ("--set", switch)]
    ended = _helm_template("--values", str(values), *more)
    assert ended.returncode == 0, ended.stderr
    return tuple(document for document in yaml.safe_load_all(ended.stdout) if document)


def refusal(values: Manifest) -> str:
    """Return the message with which these values are refused."""
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        json.dump(values, file)
        file.flush()
        ended = _helm_template("--values", file.name)
    assert ended.returncode != 0, "these values are accepted"
    return ended.stderr


def of_kind(manifests: tuple[Manifest, ...], kind: str) -> dict[str, Manifest]:
    """Return the manifests of a kind, by their names."""
    return {each["metadata"]["name"]: each for each in manifests if each["kind"] == kind}


def pods(manifests: tuple[Manifest, ...]) -> dict[str, Manifest]:
    """Return the templates of all pods, by component."""
    templates = [each["spec"]["template"] for each in manifests if each["kind"] in ("Deployment", "Job")]
    return {template["metadata"]["labels"]["app.kubernetes.io/component"]: template for template in templates}


def environment(container: Manifest) -> dict[str, str]:
    """Return the variables of a container that have a value."""
    return {each["name"]: each["value"] for each in container.get("env", []) if "value" in each}


def secret_files(pod: Manifest) -> dict[str, set[str]]:
    """Return the files of each volume of secrets that a pod has, by the volume's name."""
    found: dict[str, set[str]] = {}
    for volume in pod["spec"]["volumes"]:
        sources = [volume, *volume.get("projected", {}).get("sources", [])]
        for secret in (source["secret"] for source in sources if "secret" in source):
            files = found.setdefault(volume["name"], set())
            files.update(item["path"] for item in secret.get("items", []))
    return found
