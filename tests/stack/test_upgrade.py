"""An upgrade as docs/operations.md describes it, with two of each service, and the way back, while people work.

Image and tables are those of the next version: this tree, with a migration more for each service.
"""

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from services.common.migration_versions import newest_version
from services.database.versions import Schema
from services.locks.models import SCHEMA as LOCKS
from services.storage.index.schema import SCHEMA as STORAGE
from tests.stack.compose import ROOT, SERVICES, ComposeStack, docker, inspect
from tests.stack.conftest import behind_proxy
from tests.stack.work import add_crew, at_work
from tests.support.certificates import CertificateFiles
from tests.support.newer_tables import later_version
from tests.support.snippets import replaced, snippet

pytestmark = [pytest.mark.growth, pytest.mark.timeout(3600)]

_BUILD_SECONDS = 600
_PREVIOUS = "HEAD~1"


@pytest.fixture
def previous(request: pytest.FixtureRequest) -> Iterator[str]:
    """The image of the commit before this one; where its files cannot be had, as without a history, of this tree."""
    name = _image("previous")
    commit = request.config.getoption("--previous")
    found = subprocess.run(
        ["git", "archive", commit or _PREVIOUS], cwd=ROOT, capture_output=True, timeout=60, check=False
    )
    assert found.returncode == 0 or not commit, found.stderr
    context = ["-"] if found.returncode == 0 else [str(ROOT)]
    subprocess.run(
        ["docker", "build", "--quiet", f"--tag={name}", *context],
        input=found.stdout,
        capture_output=True,
        timeout=_BUILD_SECONDS,
        check=True,
    )
    yield name
    docker("image", "rm", "--force", name)


@pytest.fixture
def upcoming(tmp_path: Path) -> Iterator[tuple[str, dict[str, str]]]:
    """The image of this tree with a migration more for each service, and the versions that they lead to."""
    base, name = _image("base"), _image("next")
    docker("build", "--quiet", f"--tag={base}", str(ROOT), seconds=_BUILD_SECONDS)
    context = tmp_path / "next"
    recipe = [f"FROM {base}"]
    versions = {}
    for schema in (LOCKS, STORAGE):
        later = later_version(schema, context / schema.name)
        versions[schema.name] = newest_version(later.versions)
        recipe.append(f"COPY --chmod=755 {schema.name} {_versions_folder(base, schema)}")
    (context / "Dockerfile").write_text("\n".join(recipe))
    docker("build", "--quiet", f"--tag={name}", str(context), seconds=_BUILD_SECONDS)
    yield name, versions
    docker("image", "rm", "--force", name, base)


def _image(name: str) -> str:
    return f"towpath-upgrade-test:{os.getpid()}-{name}"


def _versions_folder(image: str, schema: Schema) -> str:
    """Return where an image has the migrations of a service."""
    package = f"services.{schema.name}"
    code = f"import {package}; print({package}.__path__[0])"
    folder = docker("run", "--rm", image, "python", "-c", code).strip()
    return f"{folder}/{schema.versions.relative_to(ROOT / 'services' / schema.name)}"


@pytest.fixture
def site(previous: str, certificates: CertificateFiles, tmp_path: Path) -> Iterator[ComposeStack]:
    """A stack of the previous version with two of each service behind the proxy."""
    local = _image("local")
    running = ComposeStack(
        f"towpath-upgrade-test-{os.getpid()}",
        tmp_path / "stack",
        {**behind_proxy(certificates), "TOWPATH_IMAGE": local},
        profiles=("proxy",),
        scale=dict.fromkeys(SERVICES, 2),
    )
    running.folder.mkdir()
    shutil.copy(ROOT / ".env.example", running.folder / "env")
    docker("tag", previous, local)
    try:
        running.shell(f"sh deploy/new-secrets.sh {running.folder / 'secrets'}")
        running.up()
        yield running
    finally:
        running.compose("down", "--volumes", "--timeout=10", check=False)
        docker("image", "rm", "--force", local, _image("before"), check=False)


def test_upgrade_and_back(
    site: ComposeStack, upcoming: tuple[str, dict[str, str]], certificates: CertificateFiles, tmp_path: Path
) -> None:
    """Old services on newer tables, old beside new ones, new ones alone, and back: nobody at work notices any of it."""
    image, versions = upcoming
    local, before = site.settings["TOWPATH_IMAGE"], _image("before")
    old, new = _id(local), _id(image)
    assert old != new
    names = (("towpath:local", local), ("towpath:before", before))
    with at_work(site, add_crew(site), certificates, tmp_path) as crew:
        site.shell(
            replaced(
                snippet("operations.md", "upgrade"),
                *names,
                ("git pull && docker compose build", f"docker tag {image} {local}"),
                (" secrets ", f" {site.folder / 'secrets'} "),
            )
        )
        assert _tables(site) == versions
        assert _images(site) == {service: [old, old] for service in SERVICES}
        crew.wait_for_rounds(2)

        _replace(site)
        assert _images(site) == {service: [new, new] for service in SERVICES}
        crew.wait_for_rounds(2)

        site.shell(replaced(snippet("operations.md", "go back"), *names, ("git checkout THE-EARLIER-VERSION", "true")))
        _replace(site)
        assert _images(site) == {service: [old, old] for service in SERVICES}
        assert _tables(site) == versions
        crew.wait_for_rounds(2)
    # What the services answered with an error, or nginx in their place, and the client repeated.
    assert [
        line for line in site.log("proxy").splitlines() if _status(line) in {"429", "500", "502", "503", "504"}
    ] == []


def _replace(site: ComposeStack) -> None:
    site.shell(snippet("operations.md", "replace one by one"))
    containers = {service: site.containers(service) for service in SERVICES}
    # They are as compose would make them: nothing is left that it replaces at once.
    site.up()
    assert {service: site.containers(service) for service in SERVICES} == containers


def _id(image: str) -> str:
    return docker("image", "inspect", "--format={{.Id}}", image).strip()


def _images(site: ComposeStack) -> dict[str, list[str]]:
    """Return the images of the containers of each service."""
    return {service: [str(inspect(id_)["Image"]) for id_ in site.containers(service)] for service in SERVICES}


def _tables(site: ComposeStack) -> dict[str, str]:
    """Return the version of each service's tables."""
    query = " UNION ALL ".join(
        f"SELECT '{schema.name}', version_num FROM {schema.name}.alembic_version"  # noqa: S608 - our own names
        for schema in (LOCKS, STORAGE)
    )
    rows = site.compose("exec", "--no-TTY", "postgres", "psql", "-U", "towpath", "-AtF", " ", "-c", query)
    return dict(row.split() for row in rows.splitlines())


def _status(line: str) -> str:
    """Return the status in a line of the proxy's log; nothing where it is no line of a request."""
    _, _, rest = line.partition('" ')
    return rest.split(" ", 1)[0]
