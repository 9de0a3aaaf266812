"""The terminal picture of the README: docs/getting-started.md, as two people type it in a real run.

`python -m tests.support.terminal_picture` makes it anew.
"""

import re
import shlex
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from itertools import zip_longest
from pathlib import Path

from rich.console import Console
from rich.text import Text

from tests.support.folders import temporary_folder
from tests.support.git import run
from tests.support.stack import Stack, running
from tests.support.waiting import LONG_SECONDS
from tests.support.walk import FOLDER, ORIGIN, People, Step, steps

PICTURE = Path(__file__).parents[2] / "docs" / "pictures" / "terminal.svg"
COLUMNS = 100
PROGRESS = re.compile(r"[\w ]+:(?= +\d+%)")
# What git tells of packing and of commits; the picture is about large files and locks.
UNTOLD = re.compile(
    r"Enumerating|Counting|Delta|Compressing|Writing|Total|remote:|Unpacking|From |To |Updating |Fast-forward"
    r"|branch |HEAD is|\[main |   \w+\.\.| \* | create mode| \d+ file| \S+ +\| "
)
# What a person types once on a computer is in the page, and not in the picture.
ONCE = re.compile(r"(?:mkdir|git config --global|git lfs install|printf)(?: |$)")
# The picture begins where the repository is ready to be used by a team.
FIRST = "head -c"


def typed() -> Iterator[Step]:
    """Yield the steps of the page after the start; what a person types in one terminal, line by line."""
    for step in steps()[1:]:
        if step.person == "operator" or step.how == "meanwhile":
            yield step
        else:
            yield from (replace(step, commands=line) for line in step.commands.splitlines())


def show(console: Console, step: Step, output: str) -> None:
    """Print prompts, commands and what they have printed, without the progress that a terminal overwrites."""
    for command in step.commands.splitlines():
        console.print(Text.assemble((step.person, "bold green"), " $ ", (command, "bold")), overflow="ellipsis")
    lines = [line for line in output.splitlines() if line.strip() and not UNTOLD.match(line)]
    for line, following in zip_longest(lines, lines[1:], fillvalue=""):
        progress = PROGRESS.match(line)
        if not progress or not following.startswith(progress[0]):
            console.print(Text.from_ansi(line), overflow="ellipsis", no_wrap=True)


def record(console: Console, folder: Path, stack: Stack) -> None:
    """Type the page, and print it from the first push on."""
    people = People(folder, stack)
    waiting: tuple[Step, subprocess.Popen[str]] | None = None
    shown = False

    def told(output: str) -> str:
        return output.replace(str(folder), FOLDER).replace(stack.origin, ORIGIN)

    for step in typed():
        if waiting and waiting[0].person == step.person:
            show(console, waiting[0], told(waiting[1].communicate(timeout=LONG_SECONDS)[0]))
            waiting = None
        command = people.script(step)
        if step.how == "meanwhile":
            process = subprocess.Popen(
                command,
                cwd=folder,
                env=people.environment,
                text=True,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
            )
            waiting = step, process
            continue
        if step.person != "operator":
            # With a terminal of its own, so that git and git-lfs print what a person sees.
            joined = shlex.join(command)
            command = "script", "--quiet", "--echo", "never", "--return", "--command", joined, "/dev/null"
        done = run(*command, cwd=folder, environment=people.environment, check=not step.how)
        shown = shown or step.commands.startswith(FIRST)
        if shown and not ONCE.match(step.commands):
            show(console, step, told(done.stdout))


if __name__ == "__main__":
    recorder = Console(record=True, width=COLUMNS, force_terminal=True)
    with temporary_folder() as folder, running(Stack(folder / "data", ())) as stack:
        record(recorder, folder, stack)
    # A picture in a page loads no font from elsewhere.
    PICTURE.write_text(re.sub(r"@font-face \{.*?\}\s*", "", recorder.export_svg(title="Towpath"), flags=re.DOTALL))
