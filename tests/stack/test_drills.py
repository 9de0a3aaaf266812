"""Drills of an operator, and failures of machines, while four real clients push, pull and lock.

Every client ends with success, no acknowledged data are lost, and no lock is granted twice.
"""

import json
import re
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path

import pytest

from tests.stack import work
from tests.stack.clients import Crew
from tests.stack.compose import SERVICES, ComposeStack, docker, kill, restart_one_by_one, wait_healthy
from tests.support.certificates import CertificateFiles
from tests.support.snippets import replaced, snippet
from tests.support.waiting import blocking_until

pytestmark = pytest.mark.timeout(600)

OUTAGE_SECONDS = 8
# Within ten a connection ends, and DNS is asked again.
NOTICED_SECONDS = 15

ACCEPTED = {
    "towpath_signing_key_accepted",
    "towpath_service_secret_accepted",
    "towpath_storage_admin_secret_accepted",
    "towpath_ssh_secret_accepted",
}
CHANGED = {
    "swap secrets": ACCEPTED | {name.removesuffix("_accepted") for name in ACCEPTED},
    "renew secrets": ACCEPTED,
}

AtWork = Callable[[], AbstractContextManager[Crew]]


@pytest.fixture
def at_work(stack: ComposeStack, tokens: dict[str, str], certificates: CertificateFiles, tmp_path: Path) -> AtWork:
    """Put four people to work on the stack."""
    return partial(work.at_work, stack, tokens, certificates, tmp_path)


@pytest.fixture
def since(stack: ComposeStack) -> Callable[[], list[dict[str, object]]]:
    """Return the log lines that the services have written since the test began."""
    began = time.time()

    def lines() -> list[dict[str, object]]:
        log = stack.log(*SERVICES, since=began)
        return [json.loads(line) for line in log.splitlines() if line.startswith("{")]

    return lines


def _followed(lines: list[dict[str, object]]) -> None:
    """Hold that every lock that a facade has made is in the log of a lock service under the same request id."""
    asked = {line["request_id"] for line in lines if line.get("operation") == "create_lock" and line["status"] == 201}
    method = "/towpath.locks.v1.LockService/CreateLock"
    done = {line["request_id"] for line in lines if line.get("method") == method and line["status"] == "OK"}
    assert asked
    assert asked <= done


@pytest.mark.parametrize("service", ["storage", "locks", "postgres"])
def test_restart_and_kill(
    service: str, two_facades: ComposeStack, at_work: AtWork, since: Callable[[], list[dict[str, object]]]
) -> None:
    """A service that there is one of restarts; then it dies of SIGKILL, and the engine starts it again."""
    with at_work() as crew:
        two_facades.compose("restart", service)
        crew.wait_for_rounds(2)
        kill(two_facades.containers(service)[0])
        crew.wait_for_rounds(2)
    _followed(since())


def test_facades_one_by_one(
    two_facades: ComposeStack, at_work: AtWork, since: Callable[[], list[dict[str, object]]]
) -> None:
    """Each of two facades restarts, and each dies, while the other serves."""
    with at_work() as crew:
        for container in two_facades.containers("facade"):
            docker("restart", container)
            wait_healthy(container)
            kill(container)
            crew.wait_for_rounds(1)
            wait_healthy(container)
    _followed(since())


def test_postgres_pauses(two_facades: ComposeStack, at_work: AtWork) -> None:
    """Postgres stands still for a while, with all of its connections open."""
    [postgres] = two_facades.containers("postgres")
    with at_work() as crew:
        docker("pause", postgres)
        time.sleep(OUTAGE_SECONDS)
        docker("unpause", postgres)
        crew.wait_for_rounds(2)


@pytest.mark.parametrize("service", ["storage", "locks"])
def test_network_is_cut(service: str, two_facades: ComposeStack, at_work: AtWork) -> None:
    """A service is cut off from the facades without a word, and comes back."""
    [container] = two_facades.containers(service)
    network = f"{two_facades.project}_inner"
    with at_work() as crew:
        docker("network", "disconnect", network, container)
        time.sleep(OUTAGE_SECONDS)
        docker("network", "connect", f"--alias={service}", network, container)
        crew.wait_for_rounds(2)


def test_roll(doubled: ComposeStack, at_work: AtWork, since: Callable[[], list[dict[str, object]]]) -> None:
    """All services restart one by one, as an upgrade does it, with two of each."""
    with at_work() as crew:
        for service in SERVICES:
            restart_one_by_one(doubled, service)
            crew.wait_for_rounds(1)
    _followed(since())


@pytest.mark.growth
def test_copies_come_and_go(doubled: ComposeStack, at_work: AtWork) -> None:
    """A third of each service takes its part within seconds, and is not missed when it dies and does not come back."""
    with at_work() as crew:
        doubled.scale = dict.fromkeys(SERVICES, 3)
        doubled.up()
        thirds = [doubled.containers(service)[2] for service in SERVICES]
        for third in thirds:
            _wait_until_called(third)
        crew.wait_for_rounds(1)
        for third in thirds:
            docker("rm", "--force", third)
            crew.wait_for_rounds(1)
        doubled.scale = dict.fromkeys(SERVICES, 2)


def _wait_until_called(container: str) -> None:
    # What a facade answers, and what a service answers to a facade; questions of health are not in the log.
    blocking_until(
        lambda: re.search(r'"event":"(request|call)"', docker("logs", container, errors=True)),
        f"somebody calls {container}",
        seconds=NOTICED_SECONDS,
    )


@pytest.mark.growth
def test_secrets_are_changed(
    doubled: ComposeStack, at_work: AtWork, since: Callable[[], list[dict[str, object]]]
) -> None:
    """The signing key and the secret between services are changed as docs/operations.md says."""
    with at_work() as crew:
        for step in ("swap secrets", "renew secrets"):
            before = doubled.secrets()
            commands = replaced(snippet("operations.md", step), (" secrets", f" {doubled.folder / 'secrets'}"))
            doubled.shell(commands)
            after = doubled.secrets()
            assert before.keys() == after.keys()
            assert {name for name, text in after.items() if text != before[name]} == CHANGED[step]
            for service in SERVICES:
                restart_one_by_one(doubled, service)
            for name in ("towpath_signing_key", "towpath_signing_key_accepted"):
                shown = doubled.compose("exec", "--no-TTY", "facade", "cat", f"/run/secrets/{name}")
                assert shown == after[name]
            crew.wait_for_rounds(1)
    _followed(since())
