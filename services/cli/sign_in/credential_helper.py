"""The program `git-credential-towpath`: gives git the tokens of `towpath login`, refreshed (gitcredentials(7)).

It imports little, because git starts it for many of its commands.
"""

import sys
from collections.abc import Mapping
from urllib.parse import urlsplit

from services.cli.credential_fields import MAX_BYTES, parse, write
from services.cli.sign_in.sign_ins import SignIns
from services.cli.sign_in.tokens import forget_token, fresh
from services.cli.sign_in.web import WebError


def run() -> None:
    """Run the program; git gives the operation as the argument, and the credential's fields as the input."""
    operation = sys.argv[1] if len(sys.argv) == 2 else ""
    if operation not in ("get", "store", "erase"):
        sys.exit("usage: git-credential-towpath get|store|erase, started by git")
    try:
        sys.stdout.write(answer(operation, parse(sys.stdin.buffer.read(MAX_BYTES))))
    except (WebError, OSError, ValueError) as error:
        # Without an answer, git asks its other helpers, and then the user.
        sys.stderr.write(f"git-credential-towpath: {error}\n")


def answer(operation: str, fields: Mapping[str, str]) -> str:
    """Return the output of an operation. Raises `WebError`, and ValueError for what cannot be told to git.

    `store` keeps nothing: what git stores was read here, and is there already.
    """
    known = SignIns()
    protocol, host = fields.get("protocol", "").lower(), fields.get("host", "").lower()
    found = known.find(f"{protocol}://{host}/{fields.get('path', '')}")
    if found is None or operation == "store" or urlsplit(found.server)[:2] != (protocol, host):
        return ""
    if operation == "erase":
        forget_token(known, found, fields.get("password", ""))
        return ""
    current = fresh(known, found)
    if current is None:
        raise WebError(f"sign in again: towpath login {found.server}")
    return write({"username": current.user, "password": current.token, "password_expiry_utc": str(current.expires_at)})


if __name__ == "__main__":
    run()
