"""The passwords of a self-test's users: of the environment, of git, or asked for at a terminal; never of options."""

import asyncio
import getpass
import shutil
import sys

from pydantic import SecretStr

from services.cli.errors import CommandError
from services.cli.git_credentials import GitCredentials


def find_password(url: str, user: str, given: SecretStr | None) -> str:
    """Return the password of a user at a server.

    It is the one that is given; without one, what git's credential helpers have for the URL and the user; and without
    one, what a person answers at the terminal. Raises `CommandError` if there is none.
    """
    if given is not None and (password := given.get_secret_value()):
        return password
    if password := _of_git(url, user):
        return password
    is_terminal = sys.stdin.isatty() and sys.stderr.isatty()
    if is_terminal and (password := getpass.getpass(f"Password or token of {user}: ", sys.stderr)):
        return password
    raise CommandError(
        f"no password of {user}: expected a variable, a credential helper of git that has it, or a terminal"
    )


def _of_git(url: str, user: str) -> str:
    if shutil.which("git") is None:
        return ""
    # Nobody is asked by git itself: a question of its own would not say for what.
    found = asyncio.run(GitCredentials(asks=False).fill(url, user))
    # A helper may answer with another user.
    return found.password if found is not None and found.user == user else ""
