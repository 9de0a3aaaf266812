"""One version everywhere, a changelog that has it, and images that say what they are."""

import re
import tomllib
from importlib.metadata import version
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

from services.cli.main import app
from services.facade.app import create_api
from services.facade.errors import ErrorRenderer

ROOT = Path(__file__).parents[3]
VERSION: str = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
CHART = ROOT / "deploy" / "helm" / "towpath" / "Chart.yaml"
SECTIONS = re.findall(r"^## (.+)$", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
RELEASED = re.compile(r"(\d+\.\d+\.\d+) - \d{4}-\d\d-\d\d")


def test_every_program_has_the_version_of_pyproject() -> None:
    """The installed package, the command, and the description of the interface."""
    assert version("towpath") == VERSION
    assert CliRunner().invoke(app, ["--version"]).output == f"towpath {VERSION}\n"
    described = create_api(ErrorRenderer(realm="x", documentation_url=None)).openapi()
    assert described["info"]["version"] == VERSION


@pytest.mark.skipif(not CHART.exists(), reason="there is no chart")
def test_the_chart_has_it_too() -> None:
    """A chart is released with what it runs."""
    chart = yaml.safe_load(CHART.read_text())
    assert (chart["version"], str(chart["appVersion"])) == (VERSION, VERSION)


def test_the_readme_names_it() -> None:
    """The version of its status, and the wheel that it installs."""
    named = set(re.findall(r"\d+\.\d+\.\d+(?=, beta|-py3)", (ROOT / "README.md").read_text()))
    assert named == {VERSION}


def test_the_makefile_reads_it() -> None:
    """`make image` and `make contract` name what they make by it."""
    (pattern,) = re.findall(r"^VERSION := \$\(shell sed -n 's/(.*)/\\1/p' pyproject.toml\)$", makefile(), re.MULTILINE)
    read = pattern.replace("\\(", "(").replace("\\)", ")").replace("$$", "$")
    assert re.findall(read, (ROOT / "pyproject.toml").read_text(), re.MULTILINE) == [VERSION]


def makefile() -> str:
    """Return the text of the Makefile."""
    return (ROOT / "Makefile").read_text()


def test_the_changelog_begins_with_what_is_unreleased() -> None:
    """Below it stand the releases with their days, the newest first, which is the version of pyproject.toml."""
    unreleased, *released = SECTIONS
    assert unreleased == "Unreleased"
    matched = [RELEASED.fullmatch(section) for section in released]
    assert all(matched)
    versions = [found[1] for found in matched if found]
    assert versions[0] == VERSION
    assert versions == sorted(versions, key=lambda each: [int(part) for part in each.split(".")], reverse=True)


def test_the_contract_of_each_release_is_kept() -> None:
    """`make contract` was run for it."""
    released = {found[1] for section in SECTIONS if (found := RELEASED.fullmatch(section))}
    assert {path.stem for path in (ROOT / "proto" / "released").iterdir()} == released


@pytest.mark.parametrize("image", ["towpath", "sshd"])
def test_an_image_says_what_it_is(image: str) -> None:
    """By the labels of the Open Containers Initiative, of which the build fills in version and revision."""
    text = (ROOT / "Dockerfile").read_text()
    (stage,) = (stage for stage in text.split("\nFROM ")[1:] if stage.partition("\n")[0].endswith(f" AS {image}"))
    labels = dict(re.findall(r'org\.opencontainers\.image\.(\w+)="([^"]*)"', stage))
    assert labels.keys() == {"title", "description", "licenses", "version", "revision"}
    assert (labels["licenses"], labels["version"], labels["revision"]) == ("Apache-2.0", "${VERSION}", "${REVISION}")
    given = set(re.findall(r"--build-arg (\w+)=", makefile()))
    assert set(re.findall(r"^ARG (\w+)=$", stage, re.MULTILINE)) == {"VERSION", "REVISION"} <= given


def test_the_image_has_the_packages_of_its_list() -> None:
    """And no others but Towpath itself, which the lists' own hatchling builds (`test_requirements.py`)."""
    text = (ROOT / "Dockerfile").read_text().replace("\\\n", " ")
    installed = re.findall(r"(/\w+(?:/\w+)*)/bin/pip install [^&]*--requirement (\S+)", text)
    assert installed == [("/opt/towpath", "requirements/image.txt"), ("/build", "requirements/build.txt")]
    assert text.count("COPY --from=build /opt/towpath /opt/towpath") == 1


def test_every_image_of_the_stack_has_a_tag() -> None:
    """An upgrade is a decision: `latest`, or no tag, would be another image tomorrow."""
    compose = yaml.safe_load((ROOT / "compose.yaml").read_text())
    images = {
        service["image"].removesuffix("}").partition(":-")[2] or service["image"]
        for service in compose["services"].values()
    }
    assert {"towpath:local", "towpath-sshd:local"} <= images
    assert [image for image in images if re.search(r":(?!latest)[\w.-]+$", image) is None] == []
