"""The lists of requirements/: each has what pyproject.toml asks for, by version and hash, and all have the same."""

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[3]
PYPROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())
EXTRAS: dict[str, list[str]] = PYPROJECT["project"]["optional-dependencies"]
GROUPS: dict[str, list[Any]] = PYPROJECT["dependency-groups"]
# Each list and the extras and groups that it is made of.
LISTS = {
    "run": (["server", "embedded"], ["build"]),
    "image": (["server", "tracing"], []),
    "dev": (["server", "embedded", "tracing"], ["test", "lint", "proto", "docs", "build"]),
    "build": (None, ["build"]),
    "bench": (None, ["bench"]),
    "lock": (None, ["lock"]),
    "docs": (None, ["docs"]),
}
_ENTRY = re.compile(
    r"^([A-Za-z0-9._-]+)(?:\[[^]]*\])?==(\S+)(?: ; [^\\\n]+)? \\\n((?:    --hash=sha256:[0-9a-f]{64}(?: \\)?\n)+)", re.M
)


def _listed(name: str) -> dict[str, set[str]]:
    """Return the versions of each package in a list; a package may have several, for different Pythons."""
    versions: dict[str, set[str]] = {}
    for package, version, _ in _ENTRY.findall((ROOT / "requirements" / f"{name}.txt").read_text()):
        versions.setdefault(canonicalize_name(package), set()).add(version)
    return versions


def _asked(name: str) -> list[Requirement]:
    extras, groups = LISTS[name]
    base = PYPROJECT["project"]["dependencies"] if extras is not None else []
    named = [*base, *(each for extra in extras or () for each in EXTRAS[extra])]
    return [Requirement(each) for each in (*named, *(each for group in groups for each in GROUPS[group]))]


@pytest.mark.parametrize("name", LISTS)
def test_each_line_has_a_version_and_hashes(name: str) -> None:
    """Anything else would be installed as it is on that day."""
    text = (ROOT / "requirements" / f"{name}.txt").read_text()
    assert re.sub(r"^#.*\n", "", _ENTRY.sub("", text), flags=re.M).strip() == ""


@pytest.mark.parametrize("name", LISTS)
def test_a_list_has_what_is_asked_for(name: str) -> None:
    """Whoever changes pyproject.toml runs `make lock`."""
    listed = _listed(name)
    for requirement in _asked(name):
        versions = listed[canonicalize_name(requirement.name)]
        assert all(requirement.specifier.contains(each, prereleases=True) for each in versions), requirement


def test_all_lists_have_the_same_versions() -> None:
    """A checkout and the image must run the versions that the tests have seen."""
    tested = _listed("dev")
    for name in ("run", "image", "build", "docs"):
        assert {package: tested.get(package) for package in _listed(name)} == _listed(name), name


@pytest.mark.parametrize("file", ["Makefile", "Dockerfile"])
def test_nothing_is_installed_past_the_lists(file: str) -> None:
    """Each installation asks for hashes, or takes nothing from an index."""
    text = (ROOT / file).read_text().replace("\\\n", " ")
    installing = [line for part in text.splitlines() for line in part.split("&&") if "pip install" in line]
    installing = [line.replace("$(PIP_INSTALL)", "pip install") for line in installing]
    installing += [line for line in text.splitlines() if "$(PIP_INSTALL)" in line]
    assert installing
    for line in installing:
        assert line.startswith("PIP_INSTALL =") or "--require-hashes" in line or "--no-index" in line, line
