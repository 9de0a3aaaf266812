"""The walk of docs/getting-started.md: its blocks in order, each with the person who types it."""

import os
import re
import sys
from dataclasses import dataclass, field
from pathlib import Path

from tests.support.stack import TOWPATH, Stack

FOLDER, ORIGIN = "/tmp/towpath", "http://127.0.0.1:8080"  # noqa: S108 - what the page says, replaced here
PAGE = Path(__file__).parents[2] / "docs" / "getting-started.md"
_BLOCK = re.compile(r"^<!-- walk: (\w+)(?:, (\w+))? -->\n```\w+\n(.*?)^```$", re.MULTILINE | re.DOTALL)

_PLACE = re.compile(rf"{FOLDER}(/data)?(?=[/\s\")]|$)")
_KEPT = ("PATH", "TMPDIR")


@dataclass
class Step:
    """Commands that one person types, and the lines that the page says they print."""

    person: str
    how: str
    """`refused` where the last command fails, `meanwhile` where it goes on beside the next step, or nothing."""
    commands: str
    said: list[str] = field(default_factory=list)


def steps() -> list[Step]:
    """Return the steps of the page."""
    found: list[Step] = []
    for person, how, text in _BLOCK.findall(PAGE.read_text()):
        if person == "said":
            found[-1].said += text.splitlines()
        else:
            found.append(Step(person, how, text))
    return found


class People:
    """The terminals of the page; each keeps its working folder and what it has exported."""

    def __init__(self, folder: Path, stack: Stack) -> None:
        self._folder = folder
        self._data = stack.data
        self._origin = stack.origin
        # The operator's `towpath` is the one of this checkout, as an installation would put it.
        venv = folder / "venv" / "bin"
        venv.mkdir(parents=True)
        (venv / "activate").write_text(f"export PATH={venv}:$PATH\n")
        program = venv / "towpath"
        paths = os.pathsep.join(path for path in sys.path if path)
        program.write_text(f'#!/bin/sh\nPYTHONPATH="{paths}" exec {" ".join(TOWPATH)} "$@"\n')
        program.chmod(0o755)

    def script(self, step: Step) -> tuple[str, ...]:
        """Return the command that types a step into its person's terminal."""
        # In one pass, because the folders of a run may begin with the one of the page.
        text = _PLACE.sub(lambda place: str(self._data if place[1] else self._folder), step.commands)
        text = text.replace(ORIGIN, self._origin)
        saved = self._folder / f"{step.person}.terminal"
        restore = f'. "{saved}"; ' if saved.exists() else ""
        # The terminal goes on where it was, with what it exported.
        keep = f'trap \'status=$?; {{ export -p; echo "cd \\"$PWD\\""; }} > "{saved}"; exit $status\' EXIT; '
        return "sh", "-ec", restore + keep + text

    @property
    def environment(self) -> dict[str, str]:
        """The environment of a new terminal: nothing of this host's git configuration."""
        kept = {name: os.environ[name] for name in _KEPT if name in os.environ}
        home = self._folder / "operator"
        home.mkdir(exist_ok=True)
        return {
            **kept,
            "HOME": str(home),
            "LANG": "C.UTF-8",
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_TERMINAL_PROMPT": "0",
            "GIT_PAGER": "cat",
        }
