"""Fields of a credential, as git and its helpers write them to each other (git-credential(1))."""

import re
from collections.abc import Mapping

MAX_BYTES = 64 * 1024
# Git ends a field by a line feed alone. Where one program takes another character for an end, a URL names two hosts.
_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029]")


def write(fields: Mapping[str, str]) -> str:
    """Return fields as lines; those that are empty are left out.

    Raises ValueError, which names the field, for a control character: what a server says of a user could otherwise
    name another host.
    """
    for name, value in fields.items():
        if _CONTROL.search(value):
            raise ValueError(f"{name}: expected no control characters")
    return "".join(f"{name}={value}\n" for name, value in fields.items() if value)


def parse(data: bytes) -> dict[str, str]:
    """Return the fields up to an empty line, without those that may stand more than once (`wwwauth[]`).

    Raises ValueError, which names the field, for a control character, and for a field that stands twice.
    """
    fields: dict[str, str] = {}
    for line in data[:MAX_BYTES].partition(b"\n\n")[0].decode().split("\n"):
        name, equals, value = line.partition("=")
        if not equals or name.endswith("[]"):
            continue
        if _CONTROL.search(line):
            raise ValueError(f"{_CONTROL.sub('?', name)}: expected no control characters")
        if name in fields:
            raise ValueError(f"{name}: expected once")
        fields[name] = value
    return fields
