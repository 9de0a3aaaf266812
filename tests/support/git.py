"""The real git and git-lfs, each user at a computer of their own."""

import os
import signal
import subprocess
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote, urlsplit

from tests.support.programs import needed
from tests.support.waiting import LONG_SECONDS

_KEPT = ("PATH", "TMPDIR")


def run(
    *command: str | bytes | Path,
    cwd: Path,
    environment: dict[str, str],
    check: bool = True,
    seconds: float = LONG_SECONDS,
) -> subprocess.CompletedProcess[str]:
    """Run a program; when it takes longer than `seconds`, it ends with all that it started.

    Raises AssertionError then, and where `check` is set and its exit status is not 0, with what it printed.
    """
    process = subprocess.Popen(
        command,
        cwd=cwd,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        encoding="utf-8",
        errors="replace",
        start_new_session=True,
    )
    try:
        output, errors = process.communicate(timeout=seconds)
    except subprocess.TimeoutExpired as error:
        # git waits for git-lfs, which would hold the pipes open.
        os.killpg(process.pid, signal.SIGKILL)
        output, errors = process.communicate()
        raise AssertionError(f"{command}: no end after {seconds} s\n{output}\n{errors}") from error
    assert not check or process.returncode == 0, f"{command}: exit {process.returncode}\n{output}\n{errors}"
    return subprocess.CompletedProcess(command, process.returncode, output, errors)


class Workspace:
    """One user's computer: a fresh home folder, git-lfs installed in it, and credentials that git keeps."""

    def __init__(self, home: Path, user: str, token: str | None, *, origin: str) -> None:
        needed("git")
        needed("git-lfs")
        self.home = home
        self.user = user
        home.mkdir(parents=True)
        self.environment = {
            **{name: os.environ[name] for name in _KEPT if name in os.environ},
            "HOME": str(home),
            "LANG": "C.UTF-8",
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_TERMINAL_PROMPT": "0",
        }
        settings = {
            "user.name": user,
            "user.email": f"{user}@example.test",
            "init.defaultBranch": "main",
            "push.default": "current",
            "advice.detachedHead": "false",
        }
        if token is not None:
            store = home / "credentials"
            parts = urlsplit(origin)
            store.write_text(f"{parts.scheme}://{quote(user)}:{quote(token)}@{parts.netloc}\n")
            settings["credential.helper"] = f"store --file={store}"
        for name, value in settings.items():
            self.git("config", "--global", name, value)
        self.git("lfs", "install", "--skip-repo")

    def git(
        self, *arguments: str | bytes | Path, cwd: Path | None = None, check: bool = True, seconds: float = LONG_SECONDS
    ) -> subprocess.CompletedProcess[str]:
        """Run git in the home folder, or in `cwd`."""
        return run("git", *arguments, cwd=cwd or self.home, environment=self.environment, check=check, seconds=seconds)

    def clone(
        self, remote: Path | str, name: str = "clone", *settings: str, lfs_url: str, branch: str = "main"
    ) -> "Clone":
        """Clone a git repository whose large files lie at `lfs_url`; `settings` are those of the clone, as `a.b=c`."""
        options = [f"--config={setting}" for setting in (f"lfs.url={lfs_url}", *settings)]
        self.git("clone", *options, f"--branch={branch}", remote, name)
        clone = Clone(self, self.home / name)
        clone.git("lfs", "install")
        return clone


@dataclass(frozen=True)
class Clone:
    """A clone of a git repository, and its working tree."""

    workspace: Workspace
    path: Path

    def git(
        self, *arguments: str | bytes | Path, check: bool = True, seconds: float = LONG_SECONDS
    ) -> subprocess.CompletedProcess[str]:
        """Run git in the clone."""
        return self.workspace.git(*arguments, cwd=self.path, check=check, seconds=seconds)

    def lfs(
        self, *arguments: str | bytes | Path, check: bool = True, seconds: float = LONG_SECONDS
    ) -> subprocess.CompletedProcess[str]:
        """Run git-lfs in the clone."""
        return self.git("lfs", *arguments, check=check, seconds=seconds)

    def commit(self, files: dict[str, bytes], message: str = "Change files") -> None:
        """Write files and commit them."""
        for name, data in files.items():
            path = self.path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
        self.git("add", "--all")
        self.git("commit", "--quiet", f"--message={message}")

    def fsck(self) -> str:
        """Check every large file of the clone and return what git-lfs says; fail where one is missing or wrong."""
        return self.lfs("fsck").stdout


def shared_repository(workspace: Workspace, remote: Path, *, lfs_url: str) -> Clone:
    """Make the git repository `remote`, tracking `*.dat` with git-lfs on `main`; return a clone that pushed it."""
    workspace.git("init", "--quiet", "--bare", remote)
    name = f"{remote.stem}-first"
    workspace.git("init", "--quiet", name)
    clone = Clone(workspace, workspace.home / name)
    clone.git("config", "lfs.url", lfs_url)
    clone.git("remote", "add", "origin", remote)
    clone.lfs("install")
    clone.lfs("track", "*.dat")
    clone.commit({}, "Track large files")
    clone.git("push", "--quiet", "--set-upstream", "origin", "main")
    return clone
