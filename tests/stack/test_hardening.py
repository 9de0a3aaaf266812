"""Hardening of the containers: their rights, the files that they write, and the absence of visible secrets."""

import tarfile
from pathlib import Path

import pytest

from tests.stack.compose import SERVICES, ComposeStack, docker
from tests.stack.rights import published_hosts, random_texts, require_no_privileges, require_only_volumes_written

IMAGE = "towpath:local"
MAX_IMAGE_BYTES = 250 * 1000**2
EVERYTHING = (*SERVICES, "postgres", "proxy")


@pytest.mark.parametrize("service", EVERYTHING)
def test_no_process_is_root(service: str, single: ComposeStack) -> None:
    """No process of a container runs as root, and none can gain a privilege."""
    [container] = single.containers(service)
    require_no_privileges(container)


@pytest.mark.parametrize("service", EVERYTHING)
def test_nothing_is_written_outside_of_volumes(service: str, single: ComposeStack) -> None:
    """The root file system is read-only, and nothing but the mount points of secrets was made in it."""
    [container] = single.containers(service)
    require_only_volumes_written(container)


def test_no_secret_is_to_be_seen(single: ComposeStack, tokens: dict[str, str]) -> None:
    """Neither environments nor commands nor logs nor the image hold a secret or a token."""
    values = [*random_texts(single), *tokens.values()]
    told = [single.log(*EVERYTHING)]
    for service in EVERYTHING:
        told += [docker("inspect", container) for container in single.containers(service)]
    told += [docker("image", "inspect", IMAGE), docker("history", "--no-trunc", IMAGE)]
    assert [value for value in values for text in told if value in text] == []


def test_the_image_holds_no_secret_and_little_else(single: ComposeStack, tmp_path: Path) -> None:
    """No layer has a secret, a file of the operator's, or a compiler; the whole is small."""
    saved = tmp_path / "image.tar"
    docker("save", "--output", str(saved), IMAGE, seconds=300)
    data = saved.read_bytes()
    assert [value for value in random_texts(single) if value.encode() in data] == []
    names: set[str] = set()
    with tarfile.open(saved) as image:
        for member in image:
            part = image.extractfile(member) if member.isfile() else None
            if part is not None and part.read(4) != b"":
                part.seek(0)
                try:
                    with tarfile.open(fileobj=part) as layer:
                        names |= {entry.name for entry in layer}
                except tarfile.ReadError:
                    continue
    assert "opt/towpath/bin/towpath" in names
    assert not {
        name for name in names if name.endswith(("/.env", "/.git", "bin/gcc", "bin/cc", "bin/make", "bin/strip"))
    }
    assert inspect_image_bytes() < MAX_IMAGE_BYTES


def inspect_image_bytes() -> int:
    """Return the size of the image."""
    return int(docker("image", "inspect", "--format={{.Size}}", IMAGE))


def test_only_the_doors_are_open(single: ComposeStack) -> None:
    """Facade and proxy alone have published ports, and those on loopback unless told otherwise."""
    published = {service: published_hosts(single.containers(service)[0]) for service in EVERYTHING}
    assert published == {**{service: set() for service in EVERYTHING}, "facade": {"127.0.0.1"}, "proxy": {"127.0.0.1"}}
