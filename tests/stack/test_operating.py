"""Operation beyond the README: the first mistake, a second stack on the host, ports that a restart does not change."""

import os
from collections.abc import Iterator
from dataclasses import replace

import httpx
import pytest

from tests.stack.compose import ROOT, ComposeStack, docker, wait_healthy
from tests.stack.conftest import free_ports
from tests.stack.work import CREW, REPOSITORY
from tests.support.commands import finished
from tests.support.waiting import STEP_SECONDS


def test_compose_without_make_says_what_to_do() -> None:
    """Nothing is made, and the message names the command that prepares everything."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("TOWPATH_")}
    command = ["docker", "compose", "--env-file=/dev/null", "--project-name=towpath-test-none", "up", "--detach"]
    result = finished(command, cwd=ROOT, env=kept, seconds=60)
    assert result.returncode != 0
    assert "there are no secrets yet; `make stack` makes them and starts everything" in result.stderr


def test_administration_in_the_lock_service_alone(single: ComposeStack, tokens: dict[str, str]) -> None:
    """Whoever takes over another service finds no token of the administrator there."""
    assert {user["name"] for user in single.towpath("user", "list")} >= tokens.keys()
    for service in ("storage", "facade"):
        assert "towpath_admin_token" not in single.compose("exec", "--no-TTY", service, "ls", "/run/secrets").split()


def test_a_second_stack_on_the_same_host(stack: ComposeStack) -> None:
    """A project of another name has its own networks, which are not in the way of those that are there."""
    other = replace(stack, project=f"{stack.project}-other", profiles=("proxy",), scale={})
    try:
        other.compose("create", "--no-build", "facade", "proxy")
        assert docker("network", "ls", "--quiet", f"--filter=name={other.project}_proxy").split()
    finally:
        other.compose("down", "--volumes", check=False)


@pytest.fixture
def two_ports(single: ComposeStack) -> Iterator[ComposeStack]:
    """The stack with a second facade on a port of its own; the first one has its port for itself, too."""
    first = free_ports(2)
    ports = {"TOWPATH_PUBLISH": f"127.0.0.1:{first}", "TOWPATH_PUBLISH_SECOND": f"127.0.0.1:{first + 1}"}
    with_second = replace(
        single, settings={**single.settings, **ports}, profiles=(*single.profiles, "facade-2"), scale={}
    )
    try:
        with_second.up()
        yield with_second
    finally:
        with_second.compose("rm", "--stop", "--force", "facade-2")
        single.up()


def test_ports_stay_what_they_are(two_ports: ComposeStack, tokens: dict[str, str]) -> None:
    """A proxy of the operator's own names the ports of both facades, which a restart does not change."""
    facades = {service: two_ports.containers(service)[0] for service in ("facade", "facade-2")}
    addresses = {service: two_ports.address(service, 8080) for service in facades}
    assert addresses == {
        "facade": two_ports.settings["TOWPATH_PUBLISH"],
        "facade-2": two_ports.settings["TOWPATH_PUBLISH_SECOND"],
    }
    for container in facades.values():
        docker("restart", container)
    docker("stop", *facades.values())
    # In the other order.
    for container in reversed(facades.values()):
        docker("start", container)
    for service, container in facades.items():
        wait_healthy(container, seconds=STEP_SECONDS)
        assert two_ports.address(service, 8080) == addresses[service]
        answer = httpx.get(
            f"http://{addresses[service]}/{REPOSITORY}/locks",
            auth=(CREW[0], tokens[CREW[0]]),
            headers={"Accept": "application/vnd.git-lfs+json"},
            trust_env=False,
            timeout=STEP_SECONDS,
        )
        assert answer.status_code == 200
