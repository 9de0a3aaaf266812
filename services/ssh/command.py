"""The commands that clients of SSH may run."""

import re
import shlex
from collections.abc import Collection
from dataclasses import dataclass
from enum import StrEnum

from services.ssh.errors import Refused

_SEGMENT = re.compile(r"[A-Za-z0-9._-]+", re.ASCII)
_MAX_CHARACTERS = 255
_UNKNOWN_STATUS = 127


class Program(StrEnum):
    """A program that a client names."""

    AUTHENTICATE = "git-lfs-authenticate"
    TRANSFER = "git-lfs-transfer"


_OPERATIONS = {Program.AUTHENTICATE: ("upload", "download"), Program.TRANSFER: ("upload", "download", "lock")}
_MAX_ARGUMENTS = {Program.AUTHENTICATE: 3, Program.TRANSFER: 2}


@dataclass(frozen=True)
class Command:
    """A program, the repository's name, and the operation."""

    program: Program
    repository: str
    operation: str

    @property
    def writes(self) -> bool:
        """True if the operation may change the repository or its locks."""
        return self.operation != "download"


def parse_command(text: str, offered: Collection[Program]) -> Command:
    """Return the command that a client asks for. Raises `Refused`, with the exit status of a shell as its status."""
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise Refused(_UNKNOWN_STATUS, "expected a command with its quotes closed") from error
    if not words:
        raise Refused(1, "there is no shell here; your SSH key works")
    name, *arguments = words
    if name not in offered:
        raise Refused(_UNKNOWN_STATUS, f"expected {' or '.join(offered)}, got another command")
    program = Program(name)
    if not 2 <= len(arguments) <= _MAX_ARGUMENTS[program]:
        raise Refused(1, f"expected {program} PATH OPERATION")
    path, operation, *_ = arguments
    if operation not in _OPERATIONS[program]:
        raise Refused(1, f"operation: expected {' or '.join(_OPERATIONS[program])}")
    return Command(program, _repository(path), operation)


def _repository(path: str) -> str:
    """Return the name of the repository that a path means: the path without `/` around it and `.git` at its end."""
    name = path.strip("/").removesuffix("/info/lfs").removesuffix(".git")
    is_name = len(name) <= _MAX_CHARACTERS and all(
        _SEGMENT.fullmatch(segment) and segment not in (".", "..") for segment in name.split("/")
    )
    if not is_name:
        raise Refused(1, "path: expected the name of a repository, such as studio/film")
    return name
