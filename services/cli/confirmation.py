"""Confirmation of a removal, and the option that skips it."""

import sys
from typing import Annotated

import typer

Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask back, as a terminal otherwise does.")]


def confirm(question: str, *, yes: bool) -> None:
    """Ask for confirmation at a terminal; a script is not asked. Raises `typer.Abort` unless the answer is yes."""
    if yes or not (sys.stdin.isatty() and sys.stderr.isatty()):
        return
    # Not `typer.confirm`: it writes to the standard output as well.
    typer.echo(f"{question} [y/N] ", nl=False, err=True)
    if sys.stdin.readline().strip().lower() not in ("y", "yes"):
        raise typer.Abort
