"""Credentials by git's helpers (gitcredentials(7)); they are on no command line, and in no message."""

import asyncio
import base64
import os
import signal
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple
from urllib.parse import unquote, urlsplit

from services.cli.credential_fields import parse, write
from services.cli.errors import CommandError
from services.cli.git_process import failure, start
from services.cli.processes import end

# A helper may ask a person.
_SECONDS = 300.0
_STOP_SECONDS = 5.0


class Credential(NamedTuple):
    """A user and a password, as a helper of git gave them: with all of its fields, to tell what became of them."""

    user: str
    password: str
    fields: Mapping[str, str]

    @property
    def header(self) -> str:
        """The value of an Authorization header."""
        return "Basic " + base64.b64encode(f"{self.user}:{self.password}".encode()).decode()

    def __repr__(self) -> str:
        return "Credential(***)"


class GitCredentials:
    """The helpers of git, as the settings in a folder, or those of the user, name them.

    Nobody is asked at a terminal, and with `asks` a person may be by the program of GIT_ASKPASS. Each method raises
    `CommandError` where there is no git, or it does not answer.
    """

    def __init__(self, folder: Path | None = None, *, asks: bool = True) -> None:
        self._folder = folder
        self._environment = {**os.environ, "GIT_TERMINAL_PROMPT": "0", "LC_ALL": "C"}
        if not asks:
            self._environment |= {"GIT_ASKPASS": "", "SSH_ASKPASS": ""}

    async def fill(self, url: str, user: str = "") -> Credential | None:
        """Return the credential for a URL, and for a user if one is named; None where no helper has one."""
        answer = await self._run("fill", {**_fields_of(url), **({"username": user} if user else {})})
        if answer is None or not (answer.get("username") and answer.get("password")):
            return None
        return Credential(answer["username"], answer["password"], answer)

    async def approve(self, credential: Credential) -> None:
        """Tell the helpers that a credential was accepted."""
        await self._run("approve", credential.fields)

    async def reject(self, credential: Credential) -> None:
        """Tell the helpers that a credential was refused."""
        await self._run("reject", credential.fields)

    async def _run(self, operation: str, fields: Mapping[str, str]) -> dict[str, str] | None:
        arguments = ("credential", operation)
        try:
            text = write(fields) + "\n"
        except ValueError as error:
            raise CommandError(f"git credential {operation}: {error}") from error
        with tempfile.TemporaryFile() as errors:
            process = await start(
                arguments, self._environment, errors=errors, stdin=asyncio.subprocess.PIPE, folder=self._folder
            )
            try:
                async with asyncio.timeout(_SECONDS):
                    output, _ = await process.communicate(text.encode())
            except TimeoutError:
                raise CommandError(f"git credential {operation}: no answer within {_SECONDS:.0f} s") from None
            finally:
                await end(process, signal.SIGTERM, time.monotonic() + _STOP_SECONDS)
            if process.returncode and operation != "fill":
                raise failure(arguments, process.returncode, errors)
        if process.returncode:
            return None
        try:
            return parse(output)
        except ValueError as error:
            raise CommandError(f"git credential {operation}: {error}") from error


def _fields_of(url: str) -> dict[str, str]:
    parts = urlsplit(url)
    fields = {"protocol": parts.scheme, "host": parts.netloc, "path": unquote(parts.path).strip("/")}
    if any(not value.isprintable() for value in fields.values()):
        raise CommandError("expected a URL without control characters")
    return fields
