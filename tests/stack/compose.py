"""The stack of compose.yaml as a project of its own, driven the way an operator does."""

import json
import os
import signal
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.support.commands import finished
from tests.support.waiting import blocking_until

ROOT = Path(__file__).parents[2]
SERVICES = ("storage", "locks", "facade")


@dataclass
class ComposeStack:
    """A compose project: its name, the folder of its `env` and `secrets`, and what is set beside them."""

    project: str
    folder: Path
    settings: dict[str, str]
    profiles: tuple[str, ...] = ()
    scale: dict[str, int] = field(default_factory=dict)

    @property
    def environment(self) -> dict[str, str]:
        """The environment of every command."""
        own = {
            "COMPOSE_PROJECT_NAME": self.project,
            "ENV_FILE": str(self.folder / "env"),
            "COMPOSE_ENV_FILES": str(self.folder / "env"),
            "TOWPATH_SECRETS": str(self.folder / "secrets"),
        }
        return {**os.environ, **own, **self.settings}

    def make(self, *arguments: str, seconds: float = 600) -> None:
        """Run a target of the Makefile, as the README says."""
        _run("make", *arguments, environment=self.environment, seconds=seconds)

    def compose(self, *arguments: str, check: bool = True, seconds: float = 180) -> str:
        """Run docker compose and return what it prints."""
        profiles = [f"--profile={profile}" for profile in self.profiles]
        command = ["docker", "compose", *profiles, *arguments]
        return _run(*command, environment=self.environment, check=check, seconds=seconds)

    def shell(self, commands: str, *, seconds: float = 1200) -> None:
        """Run commands of the documentation, up to the first that fails."""
        _run("sh", "-e", "-c", commands, environment=self.environment, seconds=seconds)

    def up(self) -> None:
        """Start what is not there, in the scale that is asked for, and wait until all is healthy."""
        scale = [f"--scale={service}={count}" for service, count in self.scale.items()]
        self.compose("up", "--detach", "--wait", *scale, seconds=300)

    def containers(self, service: str) -> list[str]:
        """Return the ids of a service's running containers, in the order of their numbers."""
        rows = [json.loads(line) for line in self.compose("ps", "--format=json", service).splitlines() if line]
        return [row["ID"] for row in sorted(rows, key=lambda row: row["Name"])]

    def address(self, service: str, port: int, *, index: int = 1) -> str:
        """Return HOST:PORT where a container's port is published."""
        return self.compose("port", f"--index={index}", service, str(port)).strip()

    def towpath(self, *arguments: str) -> Any:  # noqa: ANN401 - whatever JSON the command prints
        """Run an administrative command in the lock service and return what it prints, parsed."""
        output = self.compose("exec", "--no-TTY", "locks", "towpath", *arguments, "--json")
        return json.loads(output) if output.strip() else None

    def secrets(self) -> dict[str, str]:
        """Return the secrets, by name."""
        return {path.name: path.read_text() for path in (self.folder / "secrets").iterdir()}

    def log(self, *services: str, since: float = 0.0) -> str:
        """Return what the containers of the services have written since a moment, in seconds of the epoch."""
        containers = [container for service in services for container in self.containers(service)]
        return "".join(docker("logs", f"--since={since:.3f}", container, errors=True) for container in containers)


def docker(*arguments: str, check: bool = True, seconds: float = 120, errors: bool = False) -> str:
    """Run docker and return what it prints, with `errors` also on the standard error."""
    return _run("docker", *arguments, environment=dict(os.environ), check=check, seconds=seconds, errors=errors)


def inspect(container: str) -> dict[str, Any]:
    """Return what the engine knows of a container."""
    known: dict[str, Any] = json.loads(docker("inspect", container))[0]
    return known


def kill(container: str) -> None:
    """End a container's first process as a crash does; what the engine then does is its own affair."""
    os.kill(inspect(container)["State"]["Pid"], signal.SIGKILL)


def wait_healthy(container: str, *, seconds: float = 60) -> None:
    """Wait until a container is healthy."""

    def is_healthy() -> bool:
        state = inspect(container)["State"]
        return bool(state["Status"] == "running" and state["Health"]["Status"] == "healthy")

    blocking_until(is_healthy, f"{container} is healthy", seconds=seconds)


def _run(*command: str, environment: dict[str, str], check: bool = True, seconds: float, errors: bool = False) -> str:
    result = finished(command, cwd=ROOT, env=environment, seconds=seconds)
    assert not check or result.returncode == 0, f"{command}: exit {result.returncode}\n{result.stdout}\n{result.stderr}"
    return result.stdout + result.stderr if errors else result.stdout


def restart_one_by_one(stack: ComposeStack, service: str) -> None:
    """Restart the containers of a service, each when the one before it is healthy again."""
    for container in stack.containers(service):
        docker("restart", container)
        wait_healthy(container)
