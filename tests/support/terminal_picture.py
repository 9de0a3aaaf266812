"""The terminal picture of the README, made from a real run: `python -m tests.support.terminal_picture`."""

import os
import re
import secrets
import shlex
from itertools import zip_longest
from pathlib import Path

from rich.console import Console
from rich.text import Text

from tests.support.folders import temporary_folder
from tests.support.git import Clone, Workspace, run, shared_repository
from tests.support.stack import TOWPATH, Stack, running

PICTURE = Path(__file__).parents[2] / "docs" / "pictures" / "terminal.svg"
COLUMNS = 100
USERS = ("alice", "bob")
PROGRESS = re.compile(r"[\w ]+:(?= +\d+%)")


def show(console: Console, user: str, command: str, output: str) -> None:
    """Print a prompt, a command and what it has printed, without the progress that a terminal overwrites."""
    console.print(Text.assemble((user, "bold green"), " $ ", (command, "bold")))
    lines = [line for line in output.splitlines() if line.strip()]
    for line, following in zip_longest(lines, lines[1:], fillvalue=""):
        progress = PROGRESS.match(line)
        if not progress or not following.startswith(progress[0]):
            console.print(Text.from_ansi(line), overflow="ellipsis", no_wrap=True)


def record(console: Console, folder: Path, stack: Stack) -> None:
    """Run what an operator and two artists do first, and print it."""

    def administer(command: str) -> str:
        arguments = [*TOWPATH, *shlex.split(command)[1:], "--data", str(stack.data)]
        return run(*arguments, cwd=Path.cwd(), environment=dict(os.environ)).stdout

    def work(clone: Clone, command: str) -> None:
        on_terminal = ["script", "--quiet", "--echo", "never", "--command", command, "/dev/null"]
        done = run(*on_terminal, cwd=clone.path, environment=clone.workspace.environment, check=False)
        show(console, clone.workspace.user, command, done.stdout.replace(str(folder), "~"))

    show(console, "operator", "towpath repo add studio/film", administer("towpath repo add studio/film"))
    for user in USERS:
        administer(f"towpath grant {user} studio/film --role write")
    alice, bob = (Workspace(folder / user, user, stack.tokens[user], origin=stack.origin) for user in USERS)
    lfs_url = f"{stack.origin}/studio/film"
    alices = shared_repository(alice, folder / "film.git", lfs_url=lfs_url)
    bobs = bob.clone(folder / "film.git", lfs_url=lfs_url)
    alices.commit({"cover.dat": secrets.token_bytes(5_000_000)}, "Add the cover")
    work(alices, "git config lfs.locksverify true")
    work(alices, "git push origin main")
    work(alices, "git lfs lock cover.dat")
    bobs.git("pull", "--quiet")
    work(bobs, "git config lfs.locksverify true")
    work(bobs, "git lfs lock cover.dat")
    work(bobs, "git lfs locks")
    bobs.commit({"cover.dat": secrets.token_bytes(5_000_000)}, "Change the cover")
    work(bobs, "git push origin main")
    show(console, "operator", "towpath lock list studio/film", administer("towpath lock list studio/film"))


if __name__ == "__main__":
    recorder = Console(record=True, width=COLUMNS, force_terminal=True)
    with temporary_folder() as folder, running(Stack(folder / "var")) as stack:
        record(recorder, folder, stack)
    # A picture in a page loads no font from elsewhere.
    PICTURE.write_text(re.sub(r"@font-face \{.*?\}\s*", "", recorder.export_svg(title="Towpath"), flags=re.DOTALL))
