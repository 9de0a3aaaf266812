"""The page docs/getting-started.md, followed by its own words: by an operator and two people in new home folders."""

import re
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.support.folders import temporary_folder
from tests.support.git import run
from tests.support.programs import needed
from tests.support.stack import Stack, running
from tests.support.waiting import LONG_SECONDS
from tests.support.walk import FOLDER, People, steps


@pytest.fixture
def own_stack() -> Iterator[Stack]:
    """The `towpath up` that the page starts, on a new folder and without the demo."""
    with temporary_folder() as folder, running(Stack(folder / "data", ())) as stack:
        yield stack


def test_a_second_person_clones_locks_and_pushes(tmp_path: Path, own_stack: Stack) -> None:
    """Every block of the page runs as it stands there, and prints what the page says."""
    needed("git")
    needed("git-lfs")
    people = People(tmp_path, own_stack)
    history = ""
    waiting: dict[str, subprocess.Popen[str]] = {}
    first, *others = steps()
    assert (first.person, first.commands) == ("server", f"towpath up --data {FOLDER}/data\n")
    with ExitStack() as started:
        for step in others:
            if step.person in waiting:
                output, _ = waiting[step.person].communicate(timeout=LONG_SECONDS)
                assert waiting.pop(step.person).returncode == 0, output
                assert "Locked cover.psd" in output
            command = people.script(step)
            if step.how == "meanwhile":
                process = subprocess.Popen(
                    command,
                    cwd=tmp_path,
                    env=people.environment,
                    text=True,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.STDOUT,
                )
                started.callback(process.kill)
                waiting[step.person] = process
                continue
            done = run(*command, cwd=tmp_path, environment=people.environment, check=False)
            said = done.stdout + done.stderr
            assert (done.returncode != 0) == (step.how == "refused"), f"{step.commands}\n{said}"
            for line in step.said:
                assert _spaced(line) in _spaced(said), said
            history = said
    assert waiting == {}
    assert "cover.psd" in history
    for person in ("alice", "bob"):
        assert person in history
    log = run("git", "log", "--format=%an", "main", cwd=tmp_path / "film.git", environment=people.environment).stdout
    assert log.split() == ["bob", "alice", "alice", "alice"]


def _spaced(text: str) -> str:
    return re.sub(r"[ \t]+", " ", text)
