"""The question before something is removed, and the option that skips it."""

import sys
from typing import Annotated

import typer

Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask back, as a terminal otherwise does.")]


def confirm(question: str, *, yes: bool) -> None:
    """Ask whoever sits at the terminal; a script is not asked. Ends the command where the answer is no."""
    if yes or not (sys.stdin.isatty() and sys.stderr.isatty()):
        return
    # Not by typer's own, which writes to the standard output as well.
    typer.echo(f"{question} [y/N] ", nl=False, err=True)
    if sys.stdin.readline().strip().lower() not in ("y", "yes"):
        raise typer.Abort
