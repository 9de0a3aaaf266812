"""The stack as somebody meets it who has read the README: by its plain port, and by the proxy with TLS and HTTP/2."""

from pathlib import Path

import pytest

from tests.stack.clients import computer
from tests.stack.compose import ComposeStack
from tests.stack.work import CREW, REPOSITORY
from tests.support.certificates import CertificateFiles
from tests.support.git import shared_repository
from tests.support.http import content


@pytest.mark.parametrize("way", ["plain", "proxy"])
def test_walk(
    way: str, single: ComposeStack, tokens: dict[str, str], origin: str, certificates: CertificateFiles, tmp_path: Path
) -> None:
    """A file is tracked, pushed, locked and cloned elsewhere by another user, whom the lock then halts."""
    address = origin if way == "proxy" else f"http://{single.address('facade', 8080)}"
    url = f"{address}/{REPOSITORY}"
    first, second = CREW[:2]
    desk = computer(tmp_path / first, first, tokens[first], origin=address, trust=certificates.authority)
    clone = shared_repository(desk, tmp_path / "film.git", lfs_url=url)
    files = {f"{way}/{number}.dat": content(f"{way} {number}", 2_000_000) for number in range(10)}
    clone.commit(files)
    clone.git("push", "origin", "main")
    path = f"{way}/0.dat"
    assert f"Locked {path}" in clone.lfs("lock", path).stdout
    other = computer(tmp_path / second, second, tokens[second], origin=address, trust=certificates.authority).clone(
        tmp_path / "film.git", lfs_url=url
    )
    other.fsck()
    assert {name: (other.path / name).read_bytes() for name in files} == files
    other.git("config", f"lfs.{url}.locksverify", "true")
    other.commit({path: b"changed"})
    halted = other.git("push", "origin", "main", check=False)
    assert halted.returncode != 0
    assert first in halted.stdout + halted.stderr
    assert f"Unlocked {path}" in clone.lfs("unlock", path).stdout
    other.git("push", "origin", "main")


def test_http2(single: ComposeStack, origin: str) -> None:
    """The real client speaks HTTP/2 with the proxy."""
    assert origin
    transfers = [line for line in single.log("proxy").splitlines() if "/objects/" in line and "git-lfs" in line]
    assert transfers
    assert all("HTTP/2.0" in line for line in transfers)
