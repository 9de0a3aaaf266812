"""`make lint` refuses a change of the .proto files that breaks what was built with the last tag."""

import os
import shutil
import subprocess
import sysconfig
from pathlib import Path

import pytest

from tests.support.programs import needed
from tests.support.waiting import STEP_SECONDS, finished

PROTO = Path(__file__).parents[3] / "proto"
BUF = Path(sysconfig.get_path("scripts")) / "buf"
LOCKS = Path("towpath/locks/v1/lock_service.proto")


class Repository:
    """A git repository with the .proto files and the script that compares them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.proto = folder / "proto"
        shutil.copytree(PROTO, self.proto, ignore=shutil.ignore_patterns("gen", "__pycache__"))

    def git(self, *arguments: str) -> None:
        """Run git, as somebody, whatever the settings of this computer."""
        somebody = ["-c", "user.name=somebody", "-c", "user.email=somebody@example.org", "-c", "tag.gpgSign=false"]
        subprocess.run(
            ["git", *somebody, *arguments], cwd=self.folder, env=_environment(), check=True, timeout=STEP_SECONDS
        )

    def commit(self, *, tag: str | None = None) -> None:
        """Commit all files, and tag the commit."""
        self.git("init", "--quiet", "--initial-branch=main")
        self.git("add", ".")
        self.git("-c", "commit.gpgSign=false", "commit", "--quiet", "--message=The files")
        if tag:
            self.git("tag", tag)

    def replace(self, old: str, new: str) -> None:
        """Replace a line of the lock service's file, which has it once."""
        text = (self.proto / LOCKS).read_text()
        assert text.count(old) == 1
        (self.proto / LOCKS).write_text(text.replace(old, new))

    def compare(self, *, folder: Path | None = None) -> subprocess.CompletedProcess[str]:
        """Run the script."""
        script = (folder or self.folder) / "proto" / "breaking.sh"
        command = ["sh", str(script), str(BUF)]
        return finished(command, env=_environment())


def _environment() -> dict[str, str]:
    # Under a hook of git its variables name another repository.
    return {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    """Files that are not committed yet."""
    needed("git")
    return Repository(tmp_path / "repository")


def test_an_added_field_passes(repository: Repository) -> None:
    """A client built with the tag does not know the field and needs not, so the script passes and names the tag."""
    repository.commit(tag="v1.0.0")
    repository.replace("  string owner_name = 5;", "  string owner_name = 5;\n  // A color.\n  string color = 99;")
    done = repository.compare()
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout == "buf breaking: nothing that worked with v1.0.0 breaks\n"


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("  string owner_name = 5;", "", 'Previously present field "5"'),
        ("  string owner_name = 5;", "  int64 owner_name = 5;", "changed type"),
        ("  rpc VerifyLocks(VerifyLocksRequest) returns (VerifyLocksResponse);", "", 'RPC "VerifyLocks"'),
    ],
    ids=["removed field", "other type", "removed call"],
)
def test_what_breaks_is_refused(repository: Repository, old: str, new: str, expected: str) -> None:
    """The script fails and says what is gone, though commits have followed the tag."""
    repository.commit(tag="v1.0.0")
    repository.replace(old, new)
    repository.commit()
    done = repository.compare()
    assert done.returncode != 0
    assert expected in done.stdout


def test_the_last_tag_counts(repository: Repository) -> None:
    """A field that a later tag has taken away is not required any more."""
    repository.commit(tag="v1.0.0")
    repository.replace("  string owner_name = 5;", "  reserved 5;")
    repository.commit(tag="v2.0.0")
    done = repository.compare()
    assert done.returncode == 0, done.stdout + done.stderr
    assert "v2.0.0" in done.stdout


def test_it_compares_in_a_second_working_tree_too(repository: Repository, tmp_path: Path) -> None:
    """A working tree of `git worktree` has its repository elsewhere."""
    repository.commit(tag="v1.0.0")
    repository.git("worktree", "add", "--quiet", str(tmp_path / "second"), "-b", "second")
    done = repository.compare(folder=tmp_path / "second")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "v1.0.0" in done.stdout


@pytest.mark.parametrize(("committed", "expected"), [(True, "there is no tag yet"), (False, "is no git repository")])
def test_without_a_tag_it_says_so_in_one_line(repository: Repository, committed: bool, expected: str) -> None:
    """There is nothing to compare with, which is no failure."""
    if committed:
        repository.commit()
    done = repository.compare()
    assert done.returncode == 0, done.stderr
    (line,) = done.stdout.splitlines()
    assert expected in line
    assert done.stderr == ""
