"""The page of the command line: every command of `towpath` with its arguments and options."""

from collections.abc import Iterator
from enum import Enum
from pathlib import Path
from typing import Any

from release.reference.markdown import document, paragraphs, table, text
from services.cli.main import root_command

INTRODUCTION = """
Every command says the same with `--help`. A variable of the environment in the last column stands in for an option
that is left out; [settings.md](../settings.md) has those that the services read.
"""


def page() -> str:
    """Return the text of the page."""
    return document("Command line", [*INTRODUCTION.strip().splitlines(), "", *_described("towpath", root_command())])


# Typer brings its own copy of Click, which it does not publish as an interface.
def _described(name: str, command: Any) -> Iterator[str]:  # noqa: ANN401 - a class that Typer keeps to itself
    parameters = [parameter for parameter in command.params if not getattr(parameter, "hidden", False)]
    arguments = [parameter for parameter in parameters if parameter.param_type_name == "argument"]
    options = [parameter for parameter in parameters if parameter.param_type_name == "option"]
    commands = {key: found for key, found in getattr(command, "commands", {}).items() if not found.hidden}
    usage = [
        name,
        *(["[OPTIONS]"] if options else []),
        *map(_placeholder, arguments),
        *(["COMMAND"] if commands else []),
    ]
    yield from (f"## {name}", "", *paragraphs(command.help or ""), "```text", " ".join(usage), "```", "")
    yield from table(
        ("argument or option", "default", "what it is", "variable"),
        [
            *(
                (f"`{_placeholder(each)}`", _default(each), text(each.help or ""), _variable(each))
                for each in arguments
            ),
            *((_names(each), _default(each), text(each.help or ""), _variable(each)) for each in options),
        ],
    )
    for key, found in commands.items():
        yield from _described(f"{name} {key}", found)


def _placeholder(argument: Any) -> str:  # noqa: ANN401 - as above
    name = argument.metavar or argument.name.upper()
    repeated = f"{name}..." if argument.nargs == -1 and not name.endswith("...") else name
    return repeated if argument.required or repeated.startswith("[") else f"[{repeated}]"


def _names(option: Any) -> str:  # noqa: ANN401 - as above
    names = ", ".join(f"`{name}`" for name in (*option.opts, *option.secondary_opts))
    value = "" if option.is_flag or option.count else f" `{option.metavar or _values(option)}`"
    return f"{names}{value}{', repeatable' if option.multiple else ''}{' (required)' if option.required else ''}"


def _values(option: Any) -> str:  # noqa: ANN401 - as above
    kind = option.type_descriptor.annotation
    return r"\|".join(each.value for each in kind) if issubclass(kind, Enum) else "NUMBER"


def _default(parameter: Any) -> str:  # noqa: ANN401 - as above
    if isinstance(parameter.show_default, str):
        return f"`{parameter.show_default}`"
    value = parameter.default.value if isinstance(parameter.default, Enum) else parameter.default
    if parameter.show_default is False or isinstance(value, bool) or not isinstance(value, str | int | float | Path):
        return ""
    return f"`{value}`" if str(value) else ""


def _variable(parameter: Any) -> str:  # noqa: ANN401 - as above
    named = [parameter.envvar] if isinstance(parameter.envvar, str) else parameter.envvar or []
    return ", ".join(f"`{name}`" for name in named)
