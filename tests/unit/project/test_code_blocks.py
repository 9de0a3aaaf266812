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

import yaml
from typer.core import TyperGroup

from services.cli.main import root_command
from services.locks.settings import BootstrapSettings
from tests.support.readers import READERS, fields
from tests.support.sources import MODULES, PAGES, ROOT, fail_with, name, text

_BLOCK = re.compile(r"^( *)```(\w*)\n(.*?)^ *```$", re.MULTILINE | re.DOTALL)
_CODE = re.compile(r"``(.+?)``|`([^`\n]+)`|`([^`]+)`")
# Helm and kubectl have it as the name of a release and of a namespace.
_NO_NAME = "".join(f"(?<!{word} )" for word in ("install", "upgrade", "rollback", "namespace"))
_COMMAND = re.compile(rf"(?:^|(?<=[\s(|;&])){_NO_NAME}towpath (?!is\b|has\b)(?P<words>[a-z](?:[^|;&)$]|\$(?!\())*)")
_SHELLS = {"sh", "bash", "console"}
# The environment of Compose and of `towpath up`, of the tests and benchmarks, and names that pages make up as examples.
_OTHER_SETTINGS = re.compile(r"TOWPATH_(?:[A-Z_]*PUBLISH[A-Z_]*|SECRETS\w*|[A-Z_]+_)\b")


@cache
def _blocks(page: Path) -> list[tuple[int, str, str]]:
    """Return the line, the language and the text of each block."""
    blocks = []
    for found in _BLOCK.finditer(text(page)):
        indent, language, block = found.groups()
        line = text(page).count("\n", 0, found.start()) + 1
        blocks.append((line, language, re.sub(rf"^{indent}", "", block, flags=re.MULTILINE)))
    return blocks


def _shell(block: str) -> None:
    done = subprocess.run(["sh", "-n"], input=block, capture_output=True, text=True, timeout=30, check=False)
    if done.returncode:
        raise ValueError(done.stderr)


def _ini(block: str) -> None:
    # git's configuration is indented, as no other ini file is.
    flat = re.sub(r"^\s+", "", block, flags=re.MULTILINE)
    configparser.ConfigParser(interpolation=None, strict=False, allow_no_value=True).read_string(flat)


_PARSERS: dict[str, Callable[[str], object]] = {
    "sh": _shell,
    "bash": _shell,
    "python": ast.parse,
    "json": json.loads,
    "yaml": lambda block: list(yaml.safe_load_all(block)),
    "toml": tomllib.loads,
    "ini": _ini,
}


def _error(language: str, block: str) -> Exception | None:
    try:
        _PARSERS.get(language, str)(block)
    except (ValueError, SyntaxError, yaml.YAMLError, configparser.Error) as error:
        return error
    return None


def test_every_block_parses() -> None:
    """A reader copies a block as it is."""
    blocks = [(page, *block) for page in PAGES for block in _blocks(page)]
    errors = [(page, line, language, _error(language, block)) for page, line, language, block in blocks]
    fail_with(f"{name(page)}:{line}: {language}: {error}" for page, line, language, error in errors if error)


def _problem(words: list[str]) -> str | None:
    """Return what is wrong with the words after `towpath`: commands and options that do not exist."""
    command = root_command()
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


def _commands(block: str) -> Iterator[str]:
    for line in re.sub(r"\\\n\s*", " ", block).splitlines():
        without_comment = re.sub(r"(?:^|\s)#.*$", "", line)
        for found in _COMMAND.finditer(without_comment):
            yield found["words"]


def _words(command: str) -> list[str]:
    try:
        return shlex.split(command)
    except ValueError:  # A part of a line, with a quotation mark that another part closes.
        return command.replace("'", "").replace('"', "").split()


def _named_commands(page: Path) -> Iterator[str]:
    found = [block for _, language, block in _blocks(page) if language in _SHELLS]
    found += [" ".join(next(filter(None, each)).split()) for each in _CODE.findall(_BLOCK.sub("", text(page)))]
    return (command for each in found for command in _commands(each))


def test_every_command_exists() -> None:
    """Each `towpath` in blocks and in the running text has this command and these options."""
    commands = [(page, command) for page in PAGES for command in _named_commands(page)]
    problems = [(page, command, _problem(_words(command.split(" > ")[0]))) for page, command in commands]
    fail_with(f"{name(page)}: towpath {command}: {problem}" for page, command, problem in problems if problem)


def _settings() -> set[str]:
    names = set().union(*map(fields, READERS)) | {f"TOWPATH_{name.upper()}" for name in BootstrapSettings.model_fields}
    environment = (ROOT / "compose.yaml", ROOT / "Makefile", ROOT / ".env.example", *(ROOT / "deploy").glob("**/*"))
    paths = [path for path in environment if path.is_file() and path.suffix != ".svg"]
    return names | {found for path in (*paths, *MODULES) for found in re.findall(r"TOWPATH_[A-Z_]+[A-Z]", text(path))}


def test_every_setting_exists() -> None:
    """A setting that a page names is one that a program reads."""
    known = _settings()
    named = [(page, each) for page in PAGES for each in re.findall(r"\bTOWPATH_[A-Z_]*[A-Z]\b", text(page))]
    unknown = {(name(page), each) for page, each in named if each not in known and not _OTHER_SETTINGS.fullmatch(each)}
    fail_with(f"{page}: {each}" for page, each in sorted(unknown))


def test_wrong_commands_are_found() -> None:
    """The check sees a command, and an option, that there is not."""
    assert _problem(["repo", "nosuch"]) == "no command nosuch in repo"
    assert _problem(["repo", "add", "studio/film", "--nosuch=1"]) == "no option --nosuch of add"
    assert _problem(["token", "add", "carol", "--name", "laptop"]) is None
