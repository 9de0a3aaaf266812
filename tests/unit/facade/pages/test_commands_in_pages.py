"""Commands that pages name."""

import re
from importlib.resources import files

import typer.main

from services.cli.main import app

_COMMAND = re.compile(r"<code>towpath ([a-z-]+)(?: ([a-z-]+))?")


def test_each_command_that_a_page_names_exists() -> None:
    """A page leads to the command line for what it cannot do itself."""
    templates = [
        entry
        for folder in (
            files("services.facade.pages") / "templates",
            files("services.facade.pages") / "templates" / "site",
        )
        for entry in folder.iterdir()
        if entry.is_file()
    ]
    named = {found.groups() for entry in templates for found in _COMMAND.finditer(entry.read_text())}
    commands = typer.main.get_group(app).commands  # the tree of the whole command line
    missing = [
        (name, part)
        for name, part in named
        if name not in commands or (part and part not in getattr(commands[name], "commands", {}))
    ]
    assert named
    assert not missing
