"""The storage and the lock service as processes on ports, as a stack has them, and what an operator makes there."""

import os
import secrets
import socket
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import grpc
from pydantic import SecretStr
from towpath.access.v1 import admin_service_pb2 as admin
from towpath.access.v1.admin_service_pb2_grpc import AdminServiceStub

from services.common.rpc.client import Peer
from tests.support.storage import wait_serving

_START_SECONDS = 60
_STOP_SECONDS = 20


def _free_address() -> str:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return f"127.0.0.1:{probe.getsockname()[1]}"


@dataclass
class InnerServices:
    """The addresses, the secret between services, an administrator's token, and what the services logged."""

    folder: Path
    database_url: SecretStr
    storage_address: str = field(default_factory=_free_address)
    locks_address: str = field(default_factory=_free_address)
    secret: str = field(default_factory=lambda: secrets.token_urlsafe(32))
    admin_token: str = ""
    processes: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    @property
    def environment(self) -> dict[str, str]:
        """The settings of both services."""
        return {
            **os.environ,
            "TOWPATH_SERVICE_SECRET": self.secret,
            "TOWPATH_STORAGE_LISTEN": self.storage_address,
            "TOWPATH_STORAGE_URL": (self.folder / "bytes").as_uri(),
            "TOWPATH_STORAGE_DATABASE_URL": self.database_url.get_secret_value(),
            "TOWPATH_STORAGE_RESERVE_BYTES": "0",
            "TOWPATH_STORAGE_ADDRESS": self.storage_address,
            "TOWPATH_LOCKS_LISTEN": self.locks_address,
            "TOWPATH_LOCKS_DATABASE_URL": self.database_url.get_secret_value(),
            "TOWPATH_DRAIN_SECONDS": "1",
        }

    @property
    def caller_environment(self) -> dict[str, str]:
        """What the operator tells another service."""
        return {
            "TOWPATH_SERVICE_SECRET": self.secret,
            "TOWPATH_STORAGE_ADDRESS": self.storage_address,
            "TOWPATH_LOCKS_ADDRESS": self.locks_address,
        }

    def log(self) -> str:
        """Return what the services have logged."""
        return (self.folder / "log").read_text()

    def prepare(self) -> None:
        """Migrate the database and make the administrator."""
        for service in ("storage", "locks"):
            self._run(service, "migrate")
        self.admin_token = self._run("locks", "bootstrap").strip()

    def _run(self, service: str, command: str) -> str:
        done = subprocess.run(
            [sys.executable, "-m", f"services.{service}", command],
            env=self.environment,
            stdout=subprocess.PIPE,
            timeout=60,
            check=True,
        )
        return done.stdout.decode()

    def start(self, service: str) -> None:
        """Start one of them."""
        with (self.folder / "log").open("ab") as log:
            command = [sys.executable, "-m", f"services.{service}"]
            self.processes[service] = subprocess.Popen(command, env=self.environment, stdout=log, stderr=log)

    def kill(self, service: str) -> None:
        """Kill one of them."""
        self.processes[service].kill()
        self.processes[service].wait(_STOP_SECONDS)

    async def wait_until_serving(self) -> None:
        """Wait until both are SERVING."""
        for address in (self.storage_address, self.locks_address):
            async with grpc.aio.insecure_channel(address) as channel:
                try:
                    await wait_serving(channel, service="", seconds=_START_SECONDS)
                except TimeoutError:
                    raise AssertionError(f"{address} does not serve; the log:\n{self.log()[-5000:]}") from None

    def stop(self) -> None:
        """Stop both services."""
        for process in self.processes.values():
            process.terminate()
        for process in self.processes.values():
            process.wait(_STOP_SECONDS)

    async def add_writer(self, user: str, repository: str) -> str:
        """Make a user who may write in a repository, which is made when it is new, and return a token."""
        peer = Peer(self.locks_address, deadline=20, secret=SecretStr(self.admin_token))
        stub = AdminServiceStub(peer.channel)
        try:
            listed = await peer.call(stub.ListRepositories, admin.ListRepositoriesRequest())
            if repository not in [known.name for known in listed.repositories]:
                await peer.call(stub.CreateRepository, admin.CreateRepositoryRequest(name=repository))
            await peer.call(stub.CreateUser, admin.CreateUserRequest(name=user))
            grant = admin.GrantAccessRequest(user_name=user, repository=repository, role=admin.ROLE_WRITE)
            await peer.call(stub.GrantAccess, grant)
            token = admin.CreateTokenRequest(user_name=user, name="example")
            return (await peer.call(stub.CreateToken, token)).secret
        finally:
            await peer.close()


@asynccontextmanager
async def inner_services(database_url: SecretStr, folder: Path) -> AsyncIterator[InnerServices]:
    """Run both services on an empty database."""
    running = InnerServices(folder, database_url)
    running.prepare()
    try:
        for service in ("storage", "locks"):
            running.start(service)
        await running.wait_until_serving()
        yield running
    finally:
        running.stop()
