"""The commands `towpath ssh`, which OpenSSH runs; `services.cli.entry` runs them without importing this module."""

import sys
from typing import Annotated

import typer

from services.common import ssh_client

app = typer.Typer(help="What OpenSSH runs where users sign in with SSH keys.", no_args_is_help=True)

Socket = Annotated[str, typer.Option(metavar="PATH", help="The socket of the SSH service (TOWPATH_SSH_LISTEN).")]
Fingerprint = Annotated[
    str, typer.Argument(metavar="FINGERPRINT", help="The SHA-256 of the key as OpenSSH prints it.", show_default=False)
]


@app.command("keys")
def keys(
    user: Annotated[
        str, typer.Argument(metavar="USER", help="The account that the client signs in to.", show_default=False)
    ],
    fingerprint: Fingerprint,
    socket: Socket = ssh_client.SOCKET,
) -> None:
    """Print the line of authorized_keys for a key, if a user has it: AuthorizedKeysCommand towpath ssh keys %u %f."""
    sys.exit(ssh_client.run(["keys", "--socket", socket, user, fingerprint]))


@app.command("serve")
def serve(fingerprint: Fingerprint, socket: Socket = ssh_client.SOCKET) -> None:
    """Run what a client asks for in SSH_ORIGINAL_COMMAND: the forced command of the line that `keys` prints."""
    sys.exit(ssh_client.run(["serve", "--socket", socket, fingerprint]))
