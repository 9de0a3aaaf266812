"""The units of systemd, run by their own words as an unprivileged user; `make lint` lets systemd read them."""

import asyncio
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import psutil
import pytest

from tests.support.installation import Installation, remove
from tests.support.interpreters import RUNNING, interpreters
from tests.support.ports import free_ports
from tests.support.postgres import TestPostgres
from tests.support.privileges import users_of
from tests.support.starters import Starter, ordinary_user
from tests.support.units import Host, Unit
from tests.support.waiting import START_SECONDS, STEP_SECONDS, blocking_until

pytestmark = pytest.mark.drill

TOKEN = "a token for whoever reads the metrics"
ADMINISTRATOR = "an-administrators-token-of-32-characters"
SECRET = "a secret that two services share"


@pytest.fixture(scope="module")
def user() -> Iterator[Starter]:
    """The account of the services."""
    with ordinary_user() as starter:
        yield starter


@pytest.fixture(scope="module")
def installation() -> Iterator[Installation]:
    """The programs of /opt/towpath, which everybody may read."""
    chosen = interpreters()[RUNNING]
    folder = Path(tempfile.mkdtemp(prefix="towpath-test-")).resolve()
    folder.chmod(0o755)
    try:
        made = Installation.make(folder / "towpath", chosen, with_python=not chosen.is_open)
        # Metrics name the version of the distribution, which a checkout is not.
        metadata = made.folder / "venv" / "lib" / chosen.name / "site-packages" / "towpath-0.dist-info" / "METADATA"
        metadata.parent.mkdir()
        metadata.write_text("Metadata-Version: 2.1\nName: towpath\nVersion: 0\n")
        yield made
    finally:
        remove(folder)


@contextmanager
def running_host(user: Starter, installation: Installation) -> Iterator[Host]:
    """A host of its own, whose units are ended with it."""
    # Short, as the paths of unix sockets have to be.
    folder = Path(tempfile.mkdtemp(prefix="towpath-")).resolve()
    folder.chmod(0o755)
    host = Host(folder, user, {"towpath": installation.command, "python": [str(installation.python)]})
    try:
        yield host
    finally:
        for unit in host.units:
            if unit.process is not None and unit.process.poll() is None:
                unit.stop()
        remove(folder)


def answers(url: str, **headers: str) -> int:
    """Return the status of an answer, 0 for none."""
    try:
        return httpx.get(url, headers=headers, trust_env=False, timeout=STEP_SECONDS).status_code
    except httpx.TransportError:
        return 0


def serves(unit: Unit, origin: str) -> None:
    """Wait until clients are answered; fail with its log if it ends before."""

    def ready() -> bool:
        assert unit.process is not None
        assert unit.process.poll() is None, unit.log
        return answers(f"{origin}/readyz") == 200

    blocking_until(ready, f"{unit.name} is ready", seconds=START_SECONDS)


def processes(unit: Unit) -> list[psutil.Process]:
    """Return its main process and all others of it."""
    assert unit.process is not None
    main = psutil.Process(unit.process.pid)
    return [main, *main.children(recursive=True)]


def test_towpath_starts_restarts_and_stops(user: Starter, installation: Installation) -> None:
    """As an unprivileged user, with settings and secrets from its files, within its time, and with its data."""
    port, metrics = free_ports(2)
    origin = f"http://127.0.0.1:{port}"
    settings = {"TOWPATH_LISTEN": f"127.0.0.1:{port}", "TOWPATH_STORAGE_METRICS_LISTEN": f"127.0.0.1:{metrics}"}
    with running_host(user, installation) as host:
        host.configure("towpath", settings, {"metrics_token": TOKEN})
        unit = host.unit("towpath")
        unit.start()
        serves(unit, origin)
        assert users_of(processes(unit)) == {user.uid}
        assert user.uid != 0
        scraped = f"http://127.0.0.1:{metrics}/metrics"
        assert (answers(scraped), answers(scraped, authorization=f"Bearer {TOKEN}")) == (401, 200)
        made = host.folder / "lib" / "towpath" / "admin-token"
        token = made.read_text()
        before = processes(unit)
        assert unit.stop() == 0
        _, alive = psutil.wait_procs(before, timeout=STEP_SECONDS)
        assert alive == []
        assert answers(f"{origin}/healthz") == 0
        unit.start()
        serves(unit, origin)
        assert made.read_text() == token
        assert unit.stop() == 0


async def test_single_services_find_each_other(installation: Installation, postgres: TestPostgres) -> None:
    """By their sockets, after the migration, with a secret that only two of them have; each stops in its time."""
    url = (await postgres.create_database(empty=True)).get_secret_value()
    # The socket of the tests' Postgres is for its own account.
    owner = postgres.postgres.sockets.stat()
    await asyncio.to_thread(_run_single_services, Starter("postgres", owner.st_uid, owner.st_gid), installation, url)


def _run_single_services(user: Starter, installation: Installation, url: str) -> None:
    [port] = free_ports(1)
    with running_host(user, installation) as host:
        host.configure("migrate", {"TOWPATH_DATABASE_URL": url}, {"admin_token": ADMINISTRATOR})
        host.configure("locks", {"TOWPATH_LOCKS_DATABASE_URL": url}, {"storage_admin_secret": SECRET})
        host.configure("storage", {"TOWPATH_STORAGE_DATABASE_URL": url}, {"storage_admin_secret": SECRET})
        host.configure("facade", {"TOWPATH_LISTEN": f"127.0.0.1:{port}"}, {"signing_key": SECRET * 2})
        host.unit("towpath-migrate").run()
        services = [host.unit(f"towpath-{name}") for name in ("storage", "locks", "facade")]
        for unit in services:
            unit.start()
        serves(services[-1], f"http://127.0.0.1:{port}")
        for unit in services:
            assert users_of(processes(unit)) == {user.uid}
        for unit in reversed(services):
            assert unit.stop() == 0, unit.log
