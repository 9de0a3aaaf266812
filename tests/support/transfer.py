"""Imports into a repository of a real stack, and exports from it, as operators run them."""

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tests.support.commands import finished
from tests.support.stack import TOWPATH, Stack
from tests.support.waiting import LONG_SECONDS


@dataclass(frozen=True)
class Target:
    """A repository of the stack that alice may write."""

    stack: Stack
    name: str

    @property
    def url(self) -> str:
        """Its base URL."""
        return f"{self.stack.origin}/{self.name}"

    def command(self, action: str, *arguments: str | Path) -> list[str]:
        """Return the command line of an import or an export."""
        return [*TOWPATH, "repo", action, self.name, *map(str, arguments), "--data", str(self.stack.data), "--json"]

    def run(
        self, action: str, *arguments: str | Path, status: int = 0, environment: Mapping[str, str] | None = None
    ) -> Any:  # noqa: ANN401 - whatever JSON the command prints
        """Run an import or an export, and return its report."""
        told = finished(
            self.command(action, *arguments), env={**os.environ, **(environment or {})}, seconds=LONG_SECONDS
        )
        assert told.returncode == status, f"{told.stdout}\n{told.stderr}"
        return json.loads(told.stdout)

    def refused(self, action: str, *arguments: str | Path, environment: Mapping[str, str] | None = None) -> str:
        """Run an import or an export that fails, and return what it says."""
        told = finished(
            self.command(action, *arguments), env={**os.environ, **(environment or {})}, seconds=LONG_SECONDS
        )
        assert told.returncode in (1, 2), f"{told.stdout}\n{told.stderr}"
        assert not told.stdout
        return told.stderr

    def objects(self) -> dict[str, int]:
        """Return the sizes of the objects that it holds."""
        return {entry["oid"]: entry["size"] for entry in self.stack.towpath("object", "list", self.name)}

    def locks(self) -> dict[str, tuple[str, str]]:
        """Return the owner and the time of the lock of each path."""
        listed = self.stack.towpath("lock", "list", self.name)
        return {lock["path"]: (lock["owner"], lock["locked_at"]) for lock in listed}

    def add_user(self, name: str) -> None:
        """Add a user, unless there is one of this name."""
        told = finished([*TOWPATH, "user", "add", name, "--data", str(self.stack.data)])
        assert told.returncode == 0 or "there is a user" in told.stderr, told.stderr


def whole_second(text: str) -> str:
    """Return a time of another server in whole seconds, as Towpath prints it."""
    return datetime.fromisoformat(text).astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
