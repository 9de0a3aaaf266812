"""One answer of the server under test, and the expectations that every part of the interface has of one."""

from dataclasses import dataclass
from typing import Any, TypeVar

import httpx

from services.conformance import strict_json
from services.conformance.outcome import Finding
from services.conformance.redaction import Redactor

Value = TypeVar("Value", str, int, bool, list[Any], dict[str, Any])
_NAMES = {str: "a string", int: "an integer", bool: "a boolean", list: "an array", dict: "an object"}


@dataclass(frozen=True)
class Answer:
    """A status, headers and a body, with the request that led to them.

    The `expect` methods raise `Finding`, which tells of both without credentials.
    """

    request: str
    """The request in short, without credentials."""
    status: int
    headers: httpx.Headers
    content: bytes
    redactor: Redactor

    @property
    def is_success(self) -> bool:
        """Return whether a client takes the answer for a success."""
        return 200 <= self.status < 300

    @property
    def exchange(self) -> str:
        """The request and this answer in short."""
        kind = self.headers.get("content-type", "")
        parts = (self.request, "->", str(self.status), self.redactor.text(kind), self.redactor.body(self.content))
        return " ".join(part for part in parts if part)

    def expect(self, holds: object, expected: str, seen: object = None) -> None:
        """Raise a finding unless something holds; `seen` is shown in place of the whole answer."""
        if not holds:
            shown = self._in_short() if seen is None else self.redactor.text(_shown(seen))
            raise Finding(expected, shown, self.exchange)

    def expect_status(self, *allowed: int) -> None:
        """Expect one of these statuses."""
        self.expect(self.status in allowed, " or ".join(map(str, allowed)))

    def expect_refusal(self) -> None:
        """Expect a status of 400 to 499."""
        self.expect(400 <= self.status < 500, "a status from 400 to 499")

    def expect_media_type(self, media_type: str) -> None:
        """Expect a body of this media type; a charset may follow."""
        kind = self.headers.get("content-type", "none")
        plain = kind.partition(";")[0].strip().lower()
        self.expect(plain == media_type, f"Content-Type: {media_type}", kind)

    def expect_message(self) -> str:
        """Expect a message that is not empty in the body of an error, and return it."""
        return self.text(self.body(), "message")

    def text(self, members: dict[str, Any], name: str) -> str:
        """Return a member that is a string, and not an empty one."""
        text = self.member(members, name, str)
        self.expect(text, f"{name} that is not empty", "an empty one")
        return text

    def body(self) -> dict[str, Any]:
        """Return the JSON object of the body."""
        try:
            value = strict_json.parse(self.content)
        except ValueError as error:
            raise Finding("a body of JSON", str(error), self.exchange) from error
        self.expect(isinstance(value, dict), "a JSON object")
        return dict(value)

    def member(self, members: dict[str, Any], name: str, kind: type[Value]) -> Value:
        """Return a member of a JSON object of the body, which has this type."""
        self.expect(name in members, f"the member {name}", f"only {', '.join(members) or 'none'}")
        value = members[name]
        # Exactly: Python takes a boolean for an integer.
        self.expect(type(value) is kind, f"{name} as {_NAMES[kind]}", value)
        found: Value = value
        return found

    def objects(self, members: dict[str, Any], name: str) -> list[dict[str, Any]]:
        """Return a member that is an array of objects."""
        values = self.member(members, name, list)
        self.expect(all(isinstance(value, dict) for value in values), f"{name} as an array of objects", values)
        return values

    def listed(self, members: dict[str, Any], name: str) -> list[dict[str, Any]]:
        """Return a member that is an array of objects; null is taken for an empty one: that is another case."""
        return [] if members.get(name, ()) is None else self.objects(members, name)

    def _in_short(self) -> str:
        text = f"{self.status}"
        shown = self.redactor.body(self.content)
        return f"{text} {shown[:200]}".strip()


def _shown(seen: object) -> str:
    return seen if isinstance(seen, str) else repr(seen)
