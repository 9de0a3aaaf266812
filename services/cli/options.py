"""The options that many commands have in common."""

from pathlib import Path
from typing import Annotated

import typer

DEFAULT_DATA = Path("var")

Data = Annotated[
    Path,
    typer.Option(metavar="DIR", envvar="TOWPATH_DATA", help="The data folder of a `towpath up` on this host."),
]
Server = Annotated[
    str | None,
    typer.Option(
        metavar="ADDRESS",
        help="The locks service of a remote stack, HOST:PORT, instead of a data folder; "
        "the token of an administrator is read from TOWPATH_TOKEN.",
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]

User = Annotated[str, typer.Argument(metavar="USER", help="The user's name.", show_default=False)]
Repository = Annotated[
    str, typer.Argument(metavar="REPO", help="The repository's name, such as studio/film.", show_default=False)
]
