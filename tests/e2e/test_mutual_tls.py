"""All services as processes of their own, over TCP, with certificates and secret files as in a stack."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest
import trustme
from pydantic import SecretStr

from tests.support.certificates import certificate_files
from tests.support.commands import finished
from tests.support.ports import free_ports
from tests.support.stack import TOWPATH
from tests.support.waiting import until

SERVICES = {"storage": "towpath.storage.v1.StorageService", "locks": "towpath.locks.v1.LockService"}


@dataclass
class Site:
    """The addresses of the services, and the environment that they have."""

    addresses: dict[str, str]
    environment: dict[str, str]

    def run(self, *command: str, **overrides: str) -> subprocess.CompletedProcess[str]:
        """Run a command with the environment of the services, and on top of it what is given."""
        return finished(command, env={**self.environment, **overrides})

    def healthy(self, *arguments: str, **overrides: str) -> bool:
        """Ask the health probe."""
        return self.run(sys.executable, "-m", "services.common.health", *arguments, **overrides).returncode == 0


@pytest.fixture
def site(database_url: SecretStr, tmp_path: Path) -> Iterator[Site]:
    """Storage, locks and facade, on a database that `towpath migrate` has prepared."""
    storage, locks, facade = free_ports(3)
    addresses = {"storage": f"localhost:{storage}", "locks": f"localhost:{locks}", "facade": f"127.0.0.1:{facade}"}
    (tmp_path / "bytes").mkdir()
    secrets = tmp_path / "secrets"
    secrets.mkdir()
    for name in ("service_secret", "signing_key", "admin_token"):
        (secrets / f"towpath_{name}").write_text(f"the {name} of this test, which is long enough\n".replace(" ", "-"))
    for name, path in certificate_files(tmp_path, "localhost", authority=trustme.CA()).items():
        assert path is not None
        (secrets / f"towpath_{name}").write_bytes(path.read_bytes())
    url = database_url.get_secret_value()
    environment = {
        **os.environ,
        "TOWPATH_SECRETS_DIR": str(secrets),
        "TOWPATH_DATABASE_URL": url,
        "TOWPATH_STORAGE_DATABASE_URL": url,
        "TOWPATH_LOCKS_DATABASE_URL": url,
        "TOWPATH_STORAGE_URL": (tmp_path / "bytes").as_uri(),
        "TOWPATH_STORAGE_LISTEN": addresses["storage"],
        "TOWPATH_STORAGE_ADDRESS": f"dns:///{addresses['storage']}",
        "TOWPATH_LOCKS_LISTEN": addresses["locks"],
        "TOWPATH_LOCKS_ADDRESS": addresses["locks"],
        "TOWPATH_SERVER": addresses["locks"],
        "TOWPATH_LISTEN": addresses["facade"],
    }
    running = Site(addresses, environment)
    migrated = running.run(*TOWPATH, "migrate")
    assert migrated.returncode == 0, migrated.stderr
    with ExitStack() as processes:
        for name in addresses:
            log = processes.enter_context((tmp_path / f"{name}.log").open("wb"))
            command = [sys.executable, "-m", f"services.{name}"]
            process = processes.enter_context(subprocess.Popen(command, env=environment, stdout=log, stderr=log))
            processes.callback(process.terminate)
        yield running


async def test_everything_speaks_with_everything(site: Site) -> None:
    """Facade, storage, locks, the command and the probe show certificates and the secret; no stranger is answered."""
    readyz = f"http://{site.addresses['facade']}/readyz"
    await until(lambda: site.healthy(readyz), "the facade reaches storage and locks")
    for name, service in SERVICES.items():
        assert site.healthy(site.addresses[name], service)
        assert not site.healthy(site.addresses[name], service, TOWPATH_SECRETS_DIR="/none")
    added = site.run(*TOWPATH, "repo", "add", "studio/film", "--json")
    assert added.returncode == 0, added.stderr
    assert json.loads(added.stdout)["name"] == "studio/film"
    # This one is asked of storage, by the lock service.
    usage = site.run(*TOWPATH, "usage", "--json")
    assert usage.returncode == 0, usage.stderr
    assert [entry["repository"] for entry in json.loads(usage.stdout)["repositories"]] == ["studio/film"]
    stranger = site.run(*TOWPATH, "user", "list", TOWPATH_SECRETS_DIR="/none", TOWPATH_TOKEN="x" * 32)
    assert stranger.returncode == 1
    assert "TOWPATH_TLS_" in stranger.stderr
