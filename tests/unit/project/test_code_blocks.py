"""The blocks and commands of the documentation: they parse, and name commands, options and settings that exist."""

import ast
import configparser
import json
import re
import shlex
import subprocess
import tomllib
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import typer
import yaml
from typer.core import TyperGroup

from services.cache.settings import CacheSettings
from services.cli.main import app
from services.cli.settings import CommandSettings
from services.facade.settings import FacadeSettings
from services.locks.settings import BootstrapSettings, LocksSettings
from services.ssh.settings import SshSettings
from services.storage.settings import StorageSettings

ROOT = Path(__file__).parents[3]
PAGES = sorted(
    path
    for pattern in ("*.md", "docs/**/*.md", "examples/**/*.md", "monitoring/**/*.md", "proto/*.md")
    for path in ROOT.glob(pattern)
)
_BLOCK = re.compile(r"^( *)```(\w*)\n(.*?)^ *```$", re.MULTILINE | re.DOTALL)
_CODE = re.compile(r"``(.+?)``|`([^`\n]+)`|`([^`]+)`")
# Helm and kubectl have it as the name of a release and of a namespace.
_NO_NAME = "".join(f"(?<!{word} )" for word in ("install", "upgrade", "rollback", "namespace"))
_COMMAND = re.compile(rf"(?:^|(?<=[\s(|;&])){_NO_NAME}towpath (?!is\b|has\b)(?P<words>[a-z](?:[^|;&)$]|\$(?!\())*)")
_SHELLS = {"sh", "bash", "console"}
# The environment of Compose and of `towpath up`, of the tests and benchmarks, and names that pages make up as examples.
_OTHER_SETTINGS = re.compile(r"TOWPATH_(?:[A-Z_]*PUBLISH[A-Z_]*|SECRETS\w*|[A-Z_]+_)\b")


def _blocks(page: Path) -> Iterator[tuple[int, str, str]]:
    """Yield the line, the language and the text of each block."""
    text = page.read_text()
    for found in _BLOCK.finditer(text):
        indent, language, block = found.groups()
        yield text.count("\n", 0, found.start()) + 1, language, re.sub(rf"^{indent}", "", block, flags=re.MULTILINE)


def _shell(text: str) -> None:
    done = subprocess.run(["sh", "-n"], input=text, capture_output=True, text=True, timeout=30, check=False)
    if done.returncode:
        raise ValueError(done.stderr)


def _ini(text: str) -> None:
    # git's configuration is indented, as no other ini file is.
    flat = re.sub(r"^\s+", "", text, flags=re.MULTILINE)
    configparser.ConfigParser(interpolation=None, strict=False, allow_no_value=True).read_string(flat)


_PARSERS: dict[str, Callable[[str], object]] = {
    "sh": _shell,
    "bash": _shell,
    "python": ast.parse,
    "json": json.loads,
    "yaml": lambda text: list(yaml.safe_load_all(text)),
    "toml": tomllib.loads,
    "ini": _ini,
}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_block_parses(page: Path) -> None:
    """A reader copies it as it is."""
    for line, language, text in _blocks(page):
        if parse := _PARSERS.get(language):
            try:
                parse(text)
            except (ValueError, SyntaxError, yaml.YAMLError, configparser.Error) as error:
                pytest.fail(f"{page.name}:{line}: {language}: {error}")


@cache
def _application() -> Any:  # noqa: ANN401 - typer does not export the base of its commands and groups
    return typer.main.get_command(app)


def _problem(words: list[str]) -> str | None:
    """Return what is wrong with the words after `towpath`: commands and options that do not exist."""
    command = _application()
    while words and isinstance(command, TyperGroup):
        if words[0].startswith("-"):
            break
        if not re.fullmatch(r"[a-z-]+", words[0]):
            return None  # such as `towpath ...`
        if words[0] not in command.commands:
            return f"no command {words[0]} in {command.name}"
        command = command.commands[words.pop(0)]
    known = {name for parameter in command.params for name in (*parameter.opts, *parameter.secondary_opts)}
    known |= {"--help", "-h"}
    used = {word.partition("=")[0] for word in words if re.match(r"--?[a-z]", word)}
    return f"no option {', '.join(sorted(used - known))} of {command.name}" if used - known else None


def _commands(text: str) -> Iterator[str]:
    text = re.sub(r"\\\n\s*", " ", text)
    for line in text.splitlines():
        without_comment = re.sub(r"(?:^|\s)#.*$", "", line)
        for found in _COMMAND.finditer(without_comment):
            yield found["words"]


def _words(text: str) -> list[str]:
    try:
        return shlex.split(text)
    except ValueError:  # A part of a line, with a quotation mark that another part closes.
        return text.replace("'", "").replace('"', "").split()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_command_exists(page: Path) -> None:
    """Each `towpath` in blocks and in the running text has this command and these options."""
    found = [text for _, language, text in _blocks(page) if language in _SHELLS]
    prose = _BLOCK.sub("", page.read_text())
    found += [" ".join(next(filter(None, each)).split()) for each in _CODE.findall(prose)]
    commands = [command for text in found for command in _commands(text)]
    problems = {command: _problem(_words(command.split(" > ")[0])) for command in commands}
    assert {command: problem for command, problem in problems.items() if problem} == {}


@cache
def _settings() -> set[str]:
    read = (
        FacadeSettings,
        LocksSettings,
        StorageSettings,
        SshSettings,
        CacheSettings,
        CommandSettings,
        BootstrapSettings,
    )
    names = {f"TOWPATH_{name.upper()}" for settings in read for name in settings.model_fields}
    environment = "".join(
        path.read_text()
        for path in (ROOT / "compose.yaml", ROOT / "Makefile", ROOT / ".env.example", *(ROOT / "deploy").glob("**/*"))
        if path.is_file() and path.suffix != ".svg"
    )
    sources = "".join(
        path.read_text() for folder in ("services", "tests", "benchmarks") for path in (ROOT / folder).rglob("*.py")
    )
    return names | set(re.findall(r"TOWPATH_[A-Z_]+[A-Z]", environment + sources))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_setting_exists(page: Path) -> None:
    """A setting that a page names is one that a program reads."""
    named = set(re.findall(r"\bTOWPATH_[A-Z_]*[A-Z]\b", page.read_text()))
    assert {name for name in named if not _OTHER_SETTINGS.fullmatch(name)} - _settings() == set()


def test_wrong_commands_are_found() -> None:
    """The check sees a command, and an option, that there is not."""
    assert _problem(["repo", "nosuch"]) == "no command nosuch in repo"
    assert _problem(["repo", "add", "studio/film", "--nosuch=1"]) == "no option --nosuch of add"
    assert _problem(["token", "add", "carol", "--name", "laptop"]) is None
