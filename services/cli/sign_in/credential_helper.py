"""The program `git-credential-towpath`: gives git the tokens of `towpath login`, refreshed (gitcredentials(7)).

It imports little, because git starts it for many of its commands.
"""

import sys
from collections.abc import Mapping
from typing import TextIO

from services.cli.sign_in.sign_ins import SignIns
from services.cli.sign_in.tokens import forget_token, fresh
from services.cli.sign_in.web import WebError

_MAX_BYTES = 64 * 1024


def run() -> None:
    """Run the program; git gives the operation as the argument, and the credential's fields as the input."""
    operation = sys.argv[1] if len(sys.argv) == 2 else ""
    if operation not in ("get", "store", "erase"):
        sys.exit("usage: git-credential-towpath get|store|erase, started by git")
    fields = parse(sys.stdin)
    try:
        sys.stdout.write(answer(operation, fields))
    except (WebError, OSError) as error:
        # Without an answer, git asks its other helpers, and then the user.
        sys.stderr.write(f"git-credential-towpath: {error}\n")


def parse(lines: TextIO) -> dict[str, str]:
    """Return the fields that git writes, up to an empty line."""
    text = lines.read(_MAX_BYTES).partition("\n\n")[0]
    return {key: value for key, equals, value in (line.partition("=") for line in text.splitlines()) if equals}


def answer(operation: str, fields: Mapping[str, str]) -> str:
    """Return the output of an operation. Raises `WebError`.

    `store` keeps nothing: what git stores was read here, and is there already.
    """
    known = SignIns()
    found = known.find(f"{fields.get('protocol', '')}://{fields.get('host', '')}/{fields.get('path', '')}")
    if found is None or operation == "store":
        return ""
    if operation == "erase":
        forget_token(known, found, fields.get("password", ""))
        return ""
    current = fresh(known, found)
    if current is None:
        raise WebError(f"sign in again: towpath login {found.server}")
    return f"username={current.user}\npassword={current.token}\npassword_expiry_utc={current.expires_at}\n"


if __name__ == "__main__":
    run()
