"""The administration commands against a locks service of another host, over TCP."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from pydantic import SecretStr
from sqlalchemy.engine import make_url
from towpath.locks.v1 import lock_service_pb2 as pb
from towpath.locks.v1.lock_service_pb2_grpc import LockServiceStub

from services.cli.admin.pagination import PAGE
from services.common.rpc.client import ServiceClient
from tests.support.commands import finished
from tests.support.ports import free_address
from tests.support.postgres import TestPostgres
from tests.support.stack import TOWPATH
from tests.support.waiting import STEP_SECONDS

SECRET = "the secret between the services of this test"
LOCKS = [sys.executable, "-m", "services.locks"]


@dataclass
class Remote:
    """A locks service, and the token of its administrator."""

    address: str
    token: str

    def towpath(self, *arguments: str) -> Any:  # noqa: ANN401 - whatever JSON the command prints
        """Run a command against it, and return what it prints, parsed."""
        result = finished(
            [*TOWPATH, *arguments, "--json", "--server", self.address], env={**os.environ, "TOWPATH_TOKEN": self.token}
        )
        assert result.returncode == 0, result.stderr
        return json.loads(result.stdout)


@pytest.fixture
def remote(database_url: SecretStr) -> Iterator[Remote]:
    """A locks service that listens on a port, wants the secret of the services, and gives pages of two locks."""
    address = free_address()
    environment = {
        **os.environ,
        "TOWPATH_LOCKS_LISTEN": address,
        "TOWPATH_LOCKS_DATABASE_URL": database_url.get_secret_value(),
        "TOWPATH_STORAGE_ADDRESS": "127.0.0.1:1",
        "TOWPATH_SERVICE_SECRET": SECRET,
        "TOWPATH_LOCK_PAGE_DEFAULT": "2",
        "TOWPATH_LOCK_PAGE_MAX": "2",
    }
    made = subprocess.run(
        [*LOCKS, "bootstrap"], env=environment, check=True, timeout=STEP_SECONDS, stdout=subprocess.PIPE
    )
    service = subprocess.Popen(LOCKS, env=environment, stdout=subprocess.DEVNULL)
    try:
        yield Remote(address, made.stdout.decode().strip())
    finally:
        service.terminate()
        service.wait(STEP_SECONDS)


async def test_locks_of_all_pages(remote: Remote) -> None:
    """The administrator's token suffices; lists follow the cursor to the end and have each lock once."""
    repository = remote.towpath("repo", "add", "locks/many")["id"]
    holder = remote.towpath("user", "add", "holder")["id"]
    paths = [f"{number}.bin" for number in range(5)]
    peer = ServiceClient(remote.address, deadline=STEP_SECONDS, secret=SecretStr(SECRET))
    for path in paths:
        request = pb.CreateLockRequest(repository_id=repository, user_id=holder, path=path)
        await peer.call(LockServiceStub(peer.channel).CreateLock, request)
    await peer.close()
    assert [lock["path"] for lock in remote.towpath("lock", "list", "locks/many")] == paths
    remote.towpath("user", "remove", "holder", "--release-locks")
    assert remote.towpath("lock", "list", "locks/many") == []
    assert sorted(lock["path"] for lock in remote.towpath("lock", "history", "locks/many")) == paths


async def test_users_and_groups_of_all_pages(remote: Remote, postgres: TestPostgres, database_url: SecretStr) -> None:
    """There may be more users and groups than fit into a page: the commands list each of them once."""
    names = [f"of-many-{number:04}" for number in range(PAGE + 1)]
    named = f"'of-many-' || to_char(n, 'FM0000') FROM generate_series(0, {PAGE}) n"
    await postgres.execute(
        f"INSERT INTO locks.users (administrator, name) SELECT false, {named}; "
        f"INSERT INTO locks.groups (name) SELECT {named}",
        database=make_url(database_url.get_secret_value()).database or "",
    )
    assert [group["name"] for group in remote.towpath("group", "list")] == names
    listed = [user["name"] for user in remote.towpath("user", "list")]
    assert [name for name in listed if name in set(names)] == names
    assert len(listed) == len(names) + 1
