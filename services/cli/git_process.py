"""Processes of git: their start, their end with whoever started them, and what they fail with."""

import asyncio
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import IO

from services.cli.errors import CommandError

_MAX_ERROR_BYTES = 2_000


async def start(
    arguments: Sequence[str],
    environment: Mapping[str, str],
    *,
    errors: IO[bytes],
    stdin: int = asyncio.subprocess.DEVNULL,
    stdout: int = asyncio.subprocess.PIPE,
    folder: Path | None = None,
) -> asyncio.subprocess.Process:
    """Start git in a folder, by default the working directory. Raises `CommandError` if there is no git."""
    try:
        return await asyncio.create_subprocess_exec(
            "git", *arguments, env=environment, stdin=stdin, stdout=stdout, stderr=errors, cwd=folder
        )
    except OSError as error:
        raise CommandError(f"git: {(error.strerror or str(error)).lower()}") from error


@asynccontextmanager
async def ending(process: asyncio.subprocess.Process) -> AsyncGenerator[None, None]:
    """Kill the process at the end of the block if it still runs, and wait for its end."""
    try:
        yield
    finally:
        if process.returncode is None:
            with suppress(ProcessLookupError):
                process.kill()
            await process.wait()


def failure(arguments: Sequence[str], status: int | None, errors: IO[bytes]) -> CommandError:
    """Return the error that git has failed, with what it has written to `errors`."""
    errors.seek(0)
    said = errors.read(_MAX_ERROR_BYTES).decode(errors="replace").strip() or "it said nothing"
    return CommandError(f"git {arguments[0]} failed with status {status}: {said}")
