"""The commands `towpath key`: the SSH keys of users."""

import sys
from pathlib import Path
from typing import Annotated, Any

import typer
from towpath.access.v1 import admin_service_pb2 as pb

from services.cli.admin.records import moment
from services.cli.connection import Target
from services.cli.errors import CommandError
from services.cli.options import Data, Json, Server, User, Yes, confirm
from services.cli.output import show_record, show_records, show_removal

app = typer.Typer(help="Add, list and remove SSH keys, by which users sign in over SSH.", no_args_is_help=True)

# More than any public key has; the lock service knows what one may be.
_MAX_BYTES = 16 * 1024

Name = Annotated[str, typer.Argument(metavar="NAME", help="The key's name.", show_default=False)]


def key_record(key: pb.SshKey) -> dict[str, Any]:
    """Return the printed fields of an SSH key."""
    return {
        "id": key.id,
        "user": key.user_name,
        "name": key.name,
        "fingerprint": key.fingerprint,
        "public_key": key.public_key,
        "created_at": moment(key.created_at),
    }


@app.command("add")
def add_key(
    user: User,
    file: Annotated[
        Path,
        typer.Argument(
            metavar="FILE", help="The file with the public key, such as id_ed25519.pub; - for the standard input."
        ),
    ],
    name: Annotated[
        str,
        typer.Option(metavar="NAME", help="The key's name, unique among the user's."),
    ] = "default",
    data: Data = None,
    server: Server = None,
    as_json: Json = False,
) -> None:
    """Add a public key of OpenSSH, with which the user then signs in over SSH."""
    request = pb.AddSshKeyRequest(user_name=user, name=name, public_key=_text(file))
    response = Target(data, server).ask(lambda admin: admin.AddSshKey, request)
    show_record(key_record(response.key), as_json=as_json)


@app.command("list")
def list_keys(user: User, data: Data = None, server: Server = None, as_json: Json = False) -> None:
    """List a user's SSH keys by name."""
    response = Target(data, server).ask(lambda admin: admin.ListSshKeys, pb.ListSshKeysRequest(user_name=user))
    show_records(map(key_record, response.keys), ("name", "fingerprint", "created_at"), as_json=as_json)


@app.command("remove")
def remove_key(
    user: User, name: Name, yes: Yes = False, data: Data = None, server: Server = None, as_json: Json = False
) -> None:
    """Remove a key: it opens no session any more, and running ones end within a second."""
    confirm(f"Remove the SSH key {name} of {user}?", yes=yes)
    request = pb.RemoveSshKeyRequest(user_name=user, name=name)
    response = Target(data, server).ask(lambda admin: admin.RemoveSshKey, request)
    show_removal(f"the SSH key {name} of {user}", key_record(response.key), as_json=as_json)


def _text(file: Path) -> str:
    """Return the text of a file with a public key. Raises `CommandError` for a file that can be none."""
    if str(file) == "-":
        text = sys.stdin.buffer.read(_MAX_BYTES + 1)
    else:
        with file.open("rb") as opened:
            text = opened.read(_MAX_BYTES + 1)
    if len(text) > _MAX_BYTES:
        raise CommandError(f"{file}: expected a public key, of at most {_MAX_BYTES} bytes")
    try:
        return text.decode()
    except UnicodeDecodeError as error:
        raise CommandError(f"{file}: expected a public key, in UTF-8") from error
