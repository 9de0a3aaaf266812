"""The list of parts of a release (SBOM) as CycloneDX JSON: `python -m release.sbom image|package OUT`.

`image` is what the image has of Python, and `package` what pip installs with every extra, both on Linux with the Python
of the image, in the versions of requirements/, and with the licences that the packages declare where they are installed
in these versions beside this program.
"""

import re
import sys
import tomllib
import uuid
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path
from typing import Any

from cyclonedx.contrib.license.factories import LicenseFactory
from cyclonedx.model import ExternalReference, ExternalReferenceType, HashAlgorithm, HashType, XsUri
from cyclonedx.model.bom import Bom
from cyclonedx.model.component import Component, ComponentType
from cyclonedx.output.json import JsonV1Dot6
from packageurl import PackageURL
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[1]
EXTRAS = ("server", "embedded", "tracing")
_ENTRY = re.compile(r"^([A-Za-z0-9._-]+(?:\[[^]]*\])?==[^\\\n]+?) \\\n((?:    --hash=\S+(?: \\)?\n)+)", re.M)
# What packages that declare no expression of SPDX say instead.
_EXPRESSIONS = {
    "3-Clause BSD License": "BSD-3-Clause",
    "Apache License 2.0": "Apache-2.0",
    "Apache Software License": "Apache-2.0",
    "ISC License": "ISC",
    "MIT License": "MIT",
    "Mozilla Public License 2.0 (MPL 2.0)": "MPL-2.0",
    "Python Software Foundation License": "PSF-2.0",
}


@dataclass(frozen=True)
class Part:
    """A package in a version, with the hashes of its files and the packages that it needs."""

    name: str
    version: str
    hashes: tuple[str, ...] = ()
    needs: set[str] = field(default_factory=set)


def image_environment() -> dict[str, str]:
    """Return the values of markers in the image."""
    found = re.search(r"^ARG PYTHON=python:(\d+\.\d+)-", (ROOT / "Dockerfile").read_text(), re.M)
    if found is None:
        raise SystemExit("the Dockerfile names no Python")
    return {
        "python_version": found[1],
        "python_full_version": f"{found[1]}.0",
        "implementation_name": "cpython",
        "platform_python_implementation": "CPython",
        "sys_platform": "linux",
        "platform_system": "Linux",
        "platform_machine": "x86_64",
        "os_name": "posix",
    }


def listed(name: str) -> dict[str, Part]:
    """Return the packages of a list of requirements/ that are installed where the image's markers hold."""
    environment = image_environment()
    parts: dict[str, Part] = {}
    for entry, hashes in _ENTRY.findall((ROOT / "requirements" / f"{name}.txt").read_text()):
        requirement = Requirement(entry)
        if requirement.marker is None or requirement.marker.evaluate(environment):
            (pin,) = requirement.specifier
            package = canonicalize_name(requirement.name)
            parts[package] = Part(package, pin.version, tuple(re.findall(r"sha256:([0-9a-f]{64})", hashes)))
    return parts


def of_image() -> dict[str, Part]:
    """Return the packages of the image."""
    parts = listed("image")
    _connect(parts, ("server", "tracing"))
    return parts


def of_package() -> dict[str, Part]:
    """Return the packages that pip installs with every extra."""
    parts = listed("dev")
    reached = _connect(parts, EXTRAS)
    return {name: part for name, part in parts.items() if name in reached}


def _connect(parts: Mapping[str, Part], extras: Iterable[str]) -> set[str]:
    """Note of the parts what they need, as the installed packages say, and return all that Towpath needs."""
    environment = image_environment()
    todo = [(Requirement(each), "towpath") for each in _asked(extras)]
    reached: set[str] = set()
    seen: set[tuple[str, str]] = set()
    while todo:
        requirement, needed_by = todo.pop()
        name = canonicalize_name(requirement.name)
        if name not in parts:
            continue
        reached.add(name)
        if needed_by in parts:
            parts[needed_by].needs.add(name)
        for extra in {"", *requirement.extras}:
            if (name, extra) in seen:
                continue
            seen.add((name, extra))
            # What an extra asks for is told by a marker.
            values = {**environment, "extra": extra}
            required = [each for each in _required(name) if each.marker is None or each.marker.evaluate(values)]
            todo += [(each, name) for each in required]
    return reached


def _asked(extras: Iterable[str]) -> list[str]:
    project = _project()["project"]
    return [*project["dependencies"], *(each for extra in extras for each in project["optional-dependencies"][extra])]


def _project() -> dict[str, Any]:
    return tomllib.loads((ROOT / "pyproject.toml").read_text())


def _required(name: str) -> list[Requirement]:
    try:
        return [Requirement(each) for each in metadata.requires(name) or ()]
    except metadata.PackageNotFoundError:
        return []


def licence(part: Part) -> str | None:
    """Return the licence that a package declares, by SPDX where it can be told; None where it is not known."""
    try:
        told = metadata.metadata(part.name)
    except metadata.PackageNotFoundError:
        return None
    if told["Version"] != part.version:
        return None
    if expression := told["License-Expression"]:
        return str(expression)
    classifiers = [
        each.rpartition(" :: ")[2] for each in told.get_all("Classifier", []) if each.startswith("License ::")
    ]
    names = [told["License"], *classifiers] if told["License"] else classifiers
    return next((_EXPRESSIONS.get(name, name) for name in names if "\n" not in name), None)


def vendored() -> list[dict[str, str]]:
    """Return the files of others that the package has in it: name, version, licence, path."""
    found: list[dict[str, str]] = _project().get("tool", {}).get("towpath", {}).get("vendored", [])
    return found


def bom(parts: Mapping[str, Part], kind: ComponentType) -> Bom:
    """Return the list of Towpath and these parts, the same for the same parts."""
    project = _project()["project"]
    licences = LicenseFactory()
    root = Component(
        name="towpath",
        version=project["version"],
        type=kind,
        bom_ref="towpath",
        purl=PackageURL("pypi", name="towpath", version=project["version"]),
        licenses=[licences.make_from_string(project["license"])],
    )
    components = {name: _component(part, licences) for name, part in parts.items()}
    shipped = [
        Component(
            name=each["name"],
            version=each["version"],
            type=ComponentType.LIBRARY,
            bom_ref=f"{each['name']}=={each['version']}",
            purl=PackageURL("npm", name=each["name"], version=each["version"]),
            licenses=[licences.make_from_string(each["licence"])],
        )
        for each in vendored()
    ]
    made = Bom(components=[*components.values(), *shipped])
    made.metadata.component = root
    told = ",".join(f"{part.name}=={part.version}" for part in parts.values())
    made.serial_number = uuid.uuid5(uuid.NAMESPACE_URL, f"{kind.value} towpath=={project['version']},{told}")
    asked = {canonicalize_name(Requirement(each).name) for each in _asked(EXTRAS)}
    made.register_dependency(root, [*(found for name, found in components.items() if name in asked), *shipped])
    for name, part in parts.items():
        made.register_dependency(components[name], [components[each] for each in sorted(part.needs)])
    return made


def _component(part: Part, licences: LicenseFactory) -> Component:
    declared = licence(part)
    return Component(
        name=part.name,
        version=part.version,
        type=ComponentType.LIBRARY,
        bom_ref=f"{part.name}=={part.version}",
        purl=PackageURL("pypi", name=part.name, version=part.version),
        licenses=[licences.make_from_string(declared)] if declared else [],
        # The files of each platform, of which one is installed.
        external_references=[
            ExternalReference(
                type=ExternalReferenceType.DISTRIBUTION,
                url=XsUri(f"https://pypi.org/simple/{part.name}/"),
                hashes=[HashType(alg=HashAlgorithm.SHA_256, content=digest) for digest in part.hashes],
            )
        ],
    )


def write(kind: str, out: Path) -> None:
    """Write the list of `image` or `package`."""
    made = bom(of_image(), ComponentType.CONTAINER) if kind == "image" else bom(of_package(), ComponentType.LIBRARY)
    made.metadata.timestamp = None  # type: ignore[assignment] # left out, so that the same parts give the same file
    out.write_text(JsonV1Dot6(made).output_as_string(indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    write(sys.argv[1], Path(sys.argv[2]))
