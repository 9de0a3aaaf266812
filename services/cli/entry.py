"""Entry point of the `towpath` command. It names a missing package if only the stubs are installed."""

import gc
import sys

_OWN = ("services", "towpath")


def run() -> None:
    """Run the command of this process; see `services.cli.main.run`."""
    if sys.argv[1:2] == ["ssh"] and sys.argv[2:3] in (["keys"], ["serve"]):
        # OpenSSH starts these for each connection: they import nothing else.
        from services.common import ssh_client

        sys.exit(ssh_client.run(sys.argv[2:]))
    # Imports make many objects and hardly any garbage: looking for it is a fifth of the start.
    gc.disable()
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
    gc.enable()
    run_command()
