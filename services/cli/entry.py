"""Entry point of the `towpath` command. It names a missing package if only the stubs are installed."""

import sys

_OWN = ("services", "towpath")


def run() -> None:
    """Run the command of this process; see `services.cli.main.run`."""
    try:
        from services.cli.main import run as run_command
    except ModuleNotFoundError as error:
        missing = error.name or ""
        if missing.partition(".")[0] in _OWN:
            raise
        sys.exit(
            f"towpath: {missing} is not installed: `pip install towpath` brings the stubs for other services alone; "
            "the command and the services need `pip install 'towpath[server]'`"
        )
    run_command()
