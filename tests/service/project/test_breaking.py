"""`make lint` refuses a change of the .proto files that breaks what was built with the newest release."""

import os
import shutil
import subprocess
import sysconfig
from pathlib import Path

import pytest
from google.protobuf.descriptor_pb2 import FileDescriptorSet

from tests.support.commands import finished
from tests.support.waiting import STEP_SECONDS

ROOT = Path(__file__).parents[3]
PROTO = ROOT / "proto"
BUF = Path(sysconfig.get_path("scripts")) / "buf"
LOCKS = Path("towpath/locks/v1/lock_service.proto")
OWNER = "  string owner_name = 5;"
RELEASES = sorted(path.stem for path in (PROTO / "released").iterdir())


class Contract:
    """A copy of the .proto files with the script that compares them, outside of any git repository."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        shutil.copytree(PROTO, folder, ignore=shutil.ignore_patterns("gen", "released", "__pycache__"))

    def release(self, version: str) -> None:
        """Keep the files as those of a release."""
        (self.folder / "released").mkdir(exist_ok=True)
        build(self.folder, self.folder / "released" / f"{version}.binpb")

    def replace(self, old: str, new: str) -> None:
        """Replace a line of the lock service's file, which has it once."""
        text = (self.folder / LOCKS).read_text()
        assert text.count(old) == 1
        (self.folder / LOCKS).write_text(text.replace(old, new))

    def compare(self) -> subprocess.CompletedProcess[str]:
        """Run the script."""
        return finished(["sh", str(self.folder / "breaking.sh"), str(BUF)])


def build(proto: Path, to: Path) -> None:
    """Write what `make contract` writes of a folder of .proto files."""
    command = [str(BUF), "build", str(proto), "--exclude-source-info", "--output", str(to)]
    subprocess.run(command, check=True, timeout=STEP_SECONDS)


@pytest.fixture
def contract(tmp_path: Path) -> Contract:
    """Files that were not released yet."""
    return Contract(tmp_path / "proto")


def test_an_added_field_passes(contract: Contract) -> None:
    """A client built with the release does not know the field and needs not, so the script passes and names it."""
    contract.release("1.0.0")
    contract.replace(OWNER, f"{OWNER}\n  // A color.\n  string color = 99;")
    done = contract.compare()
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout == "buf breaking: nothing that worked with 1.0.0 breaks\n"


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        (OWNER, "", 'Previously present field "5"'),
        (OWNER, "  int64 owner_name = 5;", "changed type"),
        ("  rpc VerifyLocks(VerifyLocksRequest) returns (VerifyLocksResponse);", "", 'RPC "VerifyLocks"'),
    ],
    ids=["removed field", "other type", "removed call"],
)
def test_what_breaks_is_refused(contract: Contract, old: str, new: str, expected: str) -> None:
    """The script fails and says what is gone."""
    contract.release("1.0.0")
    contract.replace(old, new)
    done = contract.compare()
    assert done.returncode != 0
    assert expected in done.stdout


def test_the_newest_release_counts(contract: Contract) -> None:
    """A field that a later release has taken away is not required any more; 1.10 is later than 1.9."""
    contract.release("1.9.0")
    contract.replace(OWNER, "  reserved 5;")
    contract.release("1.10.0")
    done = contract.compare()
    assert done.returncode == 0, done.stdout + done.stderr
    assert "1.10.0" in done.stdout


def test_without_a_release_it_fails(contract: Contract) -> None:
    """Whatever has taken the files away, nothing was compared, and that is no success."""
    done = contract.compare()
    assert done.returncode == 1
    assert done.stderr == "buf breaking: proto/released has no release to compare with\n"


@pytest.mark.parametrize("version", RELEASES)
def test_what_is_kept_of_a_release_is_its_tag_s(version: str, tmp_path: Path) -> None:
    """Whoever changed a kept file would let through what breaks; the tag, where a clone has it, has the files too."""
    # Under a hook of git its variables name another repository.
    environment = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    tag = ["git", "-C", str(ROOT), "rev-parse", "--quiet", "--verify", f"v{version}^{{commit}}"]
    if not shutil.which("git") or finished(tag, env=environment).returncode:
        pytest.skip(f"this is no clone with the tag v{version}")
    archive = ["git", "-C", str(ROOT), "archive", f"--output={tmp_path / 'tag.tar'}", f"v{version}", "proto"]
    subprocess.run(archive, env=environment, check=True, timeout=STEP_SECONDS)
    # `shutil.unpack_archive` has no filter before Python 3.11.4.
    (tmp_path / "tag").mkdir()
    unpack = ["tar", "--extract", f"--file={tmp_path / 'tag.tar'}", f"--directory={tmp_path / 'tag'}"]
    subprocess.run(unpack, check=True, timeout=STEP_SECONDS)
    build(tmp_path / "tag" / "proto", tmp_path / "tag.binpb")
    kept, tagged = (PROTO / "released" / f"{version}.binpb", tmp_path / "tag.binpb")
    assert FileDescriptorSet.FromString(kept.read_bytes()) == FileDescriptorSet.FromString(tagged.read_bytes())
