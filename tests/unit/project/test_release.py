"""One version everywhere, a changelog that has it, and images that say what they are."""

import re
import tomllib
from importlib.metadata import version

import pytest
import yaml
from typer.testing import CliRunner

from services.cli.main import app
from services.facade.app import create_api
from services.facade.errors import ErrorRenderer
from tests.support.sources import ROOT, text

VERSION: str = tomllib.loads(text(ROOT / "pyproject.toml"))["project"]["version"]
SECTIONS = re.findall(r"^## (.+)$", text(ROOT / "CHANGELOG.md"), re.MULTILINE)
RELEASED = re.compile(r"(\d+\.\d+\.\d+) - \d{4}-\d\d-\d\d")


def test_every_program_has_the_version_of_pyproject() -> None:
    """The installed package, the command, and the description of the interface have one version."""
    assert version("towpath") == VERSION
    assert CliRunner().invoke(app, ["--version"]).output == f"towpath {VERSION}\n"
    described = create_api(ErrorRenderer(realm="x", documentation_url=None)).openapi()
    assert described["info"]["version"] == VERSION


def test_the_chart_has_it_too() -> None:
    """A version of the chart goes with the one of the images that it runs."""
    chart = yaml.safe_load(text(ROOT / "deploy" / "helm" / "towpath" / "Chart.yaml"))
    assert (chart["version"], chart["appVersion"]) == (VERSION, VERSION)


def test_the_readme_names_it() -> None:
    """The README has the version in its status, and in the name of the wheel that it installs."""
    named = set(re.findall(r"\d+\.\d+\.\d+(?=, beta|-py3)", text(ROOT / "README.md")))
    assert named == {VERSION}


def test_the_makefile_reads_it() -> None:
    """`make image` and `make contract` name what they make by it."""
    makefile = text(ROOT / "Makefile")
    (pattern,) = re.findall(r"^VERSION := \$\(shell sed -n 's/(.*)/\\1/p' pyproject.toml\)$", makefile, re.MULTILINE)
    read = pattern.replace("\\(", "(").replace("\\)", ")").replace("$$", "$")
    assert re.findall(read, text(ROOT / "pyproject.toml"), re.MULTILINE) == [VERSION]


def test_the_changelog_begins_with_what_is_unreleased() -> None:
    """Below the unreleased stand the releases with their days; the first is the version of pyproject.toml."""
    unreleased, *released = SECTIONS
    assert unreleased == "Unreleased"
    matched = [RELEASED.fullmatch(section) for section in released]
    assert all(matched)
    versions = [found[1] for found in matched if found]
    assert versions[0] == VERSION
    assert versions == sorted(versions, key=lambda each: [int(part) for part in each.split(".")], reverse=True)


def test_the_contract_of_each_release_is_kept() -> None:
    """`make contract` was run for each release."""
    released = {found[1] for section in SECTIONS if (found := RELEASED.fullmatch(section))}
    assert {path.stem for path in (ROOT / "proto" / "released").iterdir()} == released


@pytest.mark.parametrize("image", ["towpath", "sshd"])
def test_an_image_says_what_it_is(image: str) -> None:
    """An image has the labels of the Open Containers Initiative, of which the build fills in version and revision."""
    stages = text(ROOT / "Dockerfile").split("\nFROM ")[1:]
    (stage,) = (stage for stage in stages if stage.partition("\n")[0].endswith(f" AS {image}"))
    labels = dict(re.findall(r'org\.opencontainers\.image\.(\w+)="([^"]*)"', stage))
    assert labels.keys() == {"title", "description", "licenses", "version", "revision"}
    assert (labels["licenses"], labels["version"], labels["revision"]) == ("Apache-2.0", "${VERSION}", "${REVISION}")
    given = set(re.findall(r"--build-arg (\w+)=", text(ROOT / "Makefile")))
    assert set(re.findall(r"^ARG (\w+)=$", stage, re.MULTILINE)) == {"VERSION", "REVISION"} <= given


def test_the_image_has_the_packages_of_its_list() -> None:
    """The image has no other package but Towpath, which the lists' own hatchling builds (`test_requirements.py`)."""
    dockerfile = text(ROOT / "Dockerfile").replace("\\\n", " ")
    installed = re.findall(r"(/\w+(?:/\w+)*)/bin/pip install [^&]*--requirement (\S+)", dockerfile)
    assert installed == [("/opt/towpath", "requirements/image.txt"), ("/build", "requirements/build.txt")]
    assert dockerfile.count("COPY --from=build /opt/towpath /opt/towpath") == 1


def test_every_image_of_the_stack_has_a_tag() -> None:
    """An upgrade is a decision: `latest`, or no tag, would be another image tomorrow."""
    compose = yaml.safe_load(text(ROOT / "compose.yaml"))
    images = {
        service["image"].removesuffix("}").partition(":-")[2] or service["image"]
        for service in compose["services"].values()
    }
    assert {"towpath:local", "towpath-sshd:local"} <= images
    assert [image for image in images if not re.search(r":(?!latest)[\w.-]+(@sha256:[0-9a-f]{64})?$", image)] == []


def test_every_action_is_named_by_its_commit() -> None:
    """A tag of somebody else's repository may be moved to other code, which would run with our rights."""
    used = [line for path in (ROOT / ".github" / "workflows").iterdir() for line in re.findall("uses:.*", text(path))]
    assert used
    assert [line for line in used if not re.fullmatch(r"uses: [\w./-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+", line)] == []


def test_every_stage_of_the_image_has_the_base_that_a_release_names() -> None:
    """Each stage begins with another one, or with the base, which has a tag and may be named by a digest."""
    dockerfile = text(ROOT / "Dockerfile")
    stages = re.findall(r"^FROM (\S+) AS (\S+)$", dockerfile, re.M)
    assert len(stages) == len(re.findall("^FROM ", dockerfile, re.M))
    assert {base for base, _ in stages} <= {"${PYTHON}", *(name for _, name in stages)}
    [base] = re.findall(r"^ARG PYTHON=(.*)$", dockerfile, re.M)
    assert re.fullmatch(r"python:\d[\w.-]+(@sha256:[0-9a-f]{64})?", base)
