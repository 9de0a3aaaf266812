"""Mercurial, whose extension for large files speaks the widespread dialect by another HTTP client."""

import os
from pathlib import Path

from tests.support.git import run
from tests.support.http import content
from tests.support.programs import needed
from tests.support.stack import Stack


class _Computer:
    """A computer with Mercurial, and the token of a user of the stack."""

    def __init__(self, home: Path, stack: Stack, user: str) -> None:
        self._program = needed("hg")
        home.mkdir()
        self._environment = {"PATH": os.environ["PATH"], "HOME": str(home), "LANG": "C.UTF-8"}
        sections: dict[str, dict[str, str | Path]] = {
            "ui": {"username": user, "interactive": "no"},
            "extensions": {"lfs": ""},
            "lfs": {"url": stack.base_url, "track": "all()", "usercache": home / "cache"},
            "auth": {
                "towpath.prefix": stack.origin,
                "towpath.schemes": "http",
                "towpath.username": user,
                "towpath.password": stack.tokens[user],
            },
        }
        lines = []
        for section, settings in sections.items():
            lines += [f"[{section}]", *(f"{name} = {value}" for name, value in settings.items())]
        (home / ".hgrc").write_text("\n".join([*lines, ""]))

    def hg(self, *arguments: str | Path, folder: Path) -> str:
        """Run hg in a folder; return what it prints."""
        return run(self._program, *arguments, cwd=folder, environment=self._environment).stdout


def test_a_clone_has_the_large_files_of_another(stack: Stack, tmp_path: Path) -> None:
    """It shows credentials only after the standard challenge, and an action works beside them."""
    alice = _Computer(tmp_path / "alice", stack, "alice")
    bob = _Computer(tmp_path / "bob", stack, "bob")
    shared, work, there = (tmp_path / name for name in ("shared", "work", "there"))
    alice.hg("init", shared, folder=tmp_path)
    alice.hg("init", work, folder=tmp_path)
    files = {f"{number}.dat": content(f"mercurial {number}", 50_000 + number) for number in range(3)}
    for name, data in files.items():
        (work / name).write_bytes(data)
    alice.hg("commit", "--addremove", "--message", "Add files", folder=work)
    alice.hg("push", shared, folder=work)
    bob.hg("clone", "--pull", shared, there, folder=tmp_path)
    assert {name: (there / name).read_bytes() for name in files} == files
