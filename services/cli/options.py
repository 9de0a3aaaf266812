"""Options that several commands share."""

from pathlib import Path
from typing import Annotated

import typer

UP_DATA = Path("var")
"""The default data folder of `towpath up`."""

# None, not `UP_DATA`: without --data, TOWPATH_SERVER may name another stack; see `connection.Target`.
DEFAULT_DATA: Path | None = None

Data = Annotated[
    Path | None,
    typer.Option(
        metavar="DIR",
        help="The data folder of a `towpath up` on this host; by default TOWPATH_DATA, or var.",
        show_default=False,
    ),
]
Server = Annotated[
    str | None,
    typer.Option(
        metavar="ADDRESS",
        help="The locks service of a remote stack, HOST:PORT, instead of a data folder; by default TOWPATH_SERVER. "
        "The token of an administrator is read from TOWPATH_TOKEN, or from the secret file towpath_admin_token.",
        show_default=False,
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]

User = Annotated[str, typer.Argument(metavar="USER", help="The user's name.", show_default=False)]
Repository = Annotated[
    str, typer.Argument(metavar="REPO", help="The repository's name, such as studio/film.", show_default=False)
]
