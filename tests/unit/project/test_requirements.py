"""The lists of requirements/: each has what pyproject.toml asks for, by version and hash, and all have the same."""

import re
import tomllib
from collections.abc import Iterator
from functools import cache
from typing import Any

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.support.sources import ROOT, fail_with, text

PYPROJECT: dict[str, Any] = tomllib.loads(text(ROOT / "pyproject.toml"))
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


def _text(name: str) -> str:
    return text(ROOT / "requirements" / f"{name}.txt")


@cache
def _listed(name: str) -> dict[str, set[str]]:
    """Return the versions of each package in a list; a package may have several, for different Pythons."""
    versions: dict[str, set[str]] = {}
    for package, version, _ in _ENTRY.findall(_text(name)):
        versions.setdefault(canonicalize_name(package), set()).add(version)
    return versions


def _asked(name: str) -> list[Requirement]:
    extras, groups = LISTS[name]
    base = PYPROJECT["project"]["dependencies"] if extras is not None else []
    named = [*base, *(each for extra in extras or () for each in EXTRAS[extra])]
    return [Requirement(each) for each in (*named, *(each for group in groups for each in GROUPS[group]))]


def _unmet(name: str) -> Iterator[Requirement]:
    for requirement in _asked(name):
        versions = _listed(name).get(canonicalize_name(requirement.name), set())
        if not versions or not all(requirement.specifier.contains(each, prereleases=True) for each in versions):
            yield requirement


def test_each_line_has_a_version_and_hashes() -> None:
    """Anything else would be installed as it is on that day."""
    rests = {name: re.sub(r"^#.*\n", "", _ENTRY.sub("", _text(name)), flags=re.M).strip() for name in LISTS}
    fail_with(f"{name}: {line}" for name, rest in rests.items() for line in rest.splitlines())


def test_a_list_has_what_is_asked_for() -> None:
    """Whoever changes pyproject.toml runs `make lock`."""
    fail_with(f"{name}: {requirement} is not met" for name in LISTS for requirement in _unmet(name))


def test_all_lists_have_the_same_versions() -> None:
    """A checkout and the image must run the versions that the tests have seen."""
    listed = [(name, *entry) for name in ("run", "image", "build", "docs") for entry in _listed(name).items()]
    other = [(name, package) for name, package, versions in listed if _listed("dev").get(package) != versions]
    fail_with(f"{name}: {package} has another version than in dev" for name, package in other)


def test_nothing_is_installed_past_the_lists() -> None:
    """Each installation asks for hashes, or takes nothing from an index."""
    lines = [
        line for file in ("Makefile", "Dockerfile") for line in text(ROOT / file).replace("\\\n", " ").splitlines()
    ]
    installing = [part for line in lines for part in line.split("&&") if "pip install" in part]
    installing += [line for line in lines if "$(PIP_INSTALL)" in line]
    assert len(installing) > 4
    bound = re.compile("PIP_INSTALL =|.*--require-hashes|.*--no-index")
    fail_with(line for line in installing if not bound.match(line))
