"""The storage and the lock service as processes on ports, as a stack has them, and what an operator makes there."""

import os
import secrets
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import grpc
from pydantic import SecretStr
from towpath.access.v1 import admin_service_pb2 as admin
from towpath.access.v1.admin_service_pb2_grpc import AdminServiceStub

from tests.support.health import wait_serving
from tests.support.ports import free_address
from tests.support.waiting import STEP_SECONDS

if TYPE_CHECKING:  # only the stubs' types know the two kinds apart
    from towpath.access.v1.admin_service_pb2_grpc import AdminServiceAsyncStub


@dataclass
class InnerServices:
    """The addresses, the secret between services, an administrator's token, and what the services logged.

    `certificates` are the settings of mutual TLS, for the services and their callers alike; without them it is off.
    """

    folder: Path
    database_url: SecretStr
    certificates: dict[str, str] = field(default_factory=dict)
    storage_address: str = field(default_factory=free_address)
    locks_address: str = field(default_factory=free_address)
    secret: str = field(default_factory=lambda: secrets.token_urlsafe(32))
    admin_token: str = ""
    processes: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    @property
    def environment(self) -> dict[str, str]:
        """The settings of both services."""
        return {
            **os.environ,
            **self.certificates,
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
        """The environment that the operator gives to another service."""
        return {
            **self.certificates,
            "TOWPATH_SERVICE_SECRET": self.secret,
            "TOWPATH_STORAGE_ADDRESS": self.storage_address,
            "TOWPATH_LOCKS_ADDRESS": self.locks_address,
        }

    def log(self) -> str:
        """Return what the services have logged."""
        return (self.folder / "log").read_text()

    def make_administrator(self) -> None:
        """Make the administrator, and keep the token."""
        command = [sys.executable, "-m", "services.locks", "bootstrap"]
        done = subprocess.run(
            command, env=self.environment, stdout=subprocess.PIPE, timeout=STEP_SECONDS, check=True, text=True
        )
        self.admin_token = done.stdout.strip()

    def start(self, service: str) -> None:
        """Start one of them."""
        with (self.folder / "log").open("ab") as log:
            command = [sys.executable, "-m", f"services.{service}"]
            self.processes[service] = subprocess.Popen(command, env=self.environment, stdout=log, stderr=log)

    def kill(self, service: str) -> None:
        """Kill one of them."""
        self.processes[service].kill()
        self.processes[service].wait(STEP_SECONDS)

    async def wait_until_serving(self) -> None:
        """Wait until both are SERVING."""
        for address in (self.storage_address, self.locks_address):
            async with self.channel(address) as channel:
                try:
                    await wait_serving(channel)
                except AssertionError:
                    raise AssertionError(f"{address} does not serve; the log:\n{self.log()[-5000:]}") from None

    def stop(self) -> None:
        """Stop both services."""
        for process in self.processes.values():
            process.terminate()
        for process in self.processes.values():
            process.wait(STEP_SECONDS)

    def channel(self, address: str) -> grpc.aio.Channel:
        """Return a channel to one of the services; the caller closes it."""
        if not self.certificates:
            return grpc.aio.insecure_channel(address)
        names = ("TOWPATH_TLS_CA", "TOWPATH_TLS_KEY", "TOWPATH_TLS_CERTIFICATE")
        ca, key, certificate = (Path(self.certificates[name]).read_bytes() for name in names)
        return grpc.aio.secure_channel(address, grpc.ssl_channel_credentials(ca, key, certificate))

    async def add_writer(self, user: str, repository: str) -> str:
        """Make a user who may write in a repository, which is made when it is new, and return a token."""
        shown = (("authorization", f"Bearer {self.admin_token}"),)
        async with self.channel(self.locks_address) as channel:
            stub: AdminServiceAsyncStub = AdminServiceStub(channel)
            listed = await stub.ListRepositories(admin.ListRepositoriesRequest(), metadata=shown, timeout=STEP_SECONDS)
            if repository not in [known.name for known in listed.repositories]:
                new = admin.CreateRepositoryRequest(name=repository)
                await stub.CreateRepository(new, metadata=shown, timeout=STEP_SECONDS)
            await stub.CreateUser(admin.CreateUserRequest(name=user), metadata=shown, timeout=STEP_SECONDS)
            grant = admin.GrantAccessRequest(user_name=user, repository=repository, role=admin.ROLE_WRITE)
            await stub.GrantAccess(grant, metadata=shown, timeout=STEP_SECONDS)
            token = admin.CreateTokenRequest(user_name=user, name="example")
            return (await stub.CreateToken(token, metadata=shown, timeout=STEP_SECONDS)).secret


@asynccontextmanager
async def inner_services(
    database_url: SecretStr, folder: Path, *, certificates: dict[str, str] | None = None
) -> AsyncIterator[InnerServices]:
    """Run both services on a database, with mutual TLS where certificates are given."""
    running = InnerServices(folder, database_url, certificates or {})
    running.make_administrator()
    try:
        for service in ("storage", "locks"):
            running.start(service)
        await running.wait_until_serving()
        yield running
    finally:
        running.stop()
