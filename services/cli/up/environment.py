"""Environments of the services that `towpath up` starts: the operator's variables for them, and what `up` sets."""

import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from urllib.parse import unquote, urlsplit

from pydantic import SecretStr

from services.cli.errors import CommandError
from services.cli.up.runtime_directory import LOCKS_SOCKET, STORAGE_SOCKET
from services.cli.up.variables import for_service
from services.common.addresses import Address

# Secrets that two services share.
_STORAGE_ADMIN_SECRET = "TOWPATH_STORAGE_ADMIN_SECRET"  # noqa: S105 - the name of a variable, not a secret
_SSH_SECRET = "TOWPATH_SSH_SECRET"  # noqa: S105 - the name of a variable, not a secret

SSH_LISTEN = "TOWPATH_SSH_LISTEN"
"""The variable whose presence makes `towpath up` run the SSH service."""

_FACADE_METRICS = "TOWPATH_FACADE_METRICS_LISTEN"
_SHARED_DISK = "TOWPATH_SHARED_STORAGE_PATH"
_SHARED_MEMORY = "TOWPATH_SHARED_MEMORY_PATH"


def cache_environment(
    inherited: Mapping[str, str],
    lifeline: int,
    listener: int,
    *,
    upstream: str,
    directory: Path,
    public_url: str | None,
    log_format: str,
    drain_seconds: float,
) -> dict[str, str]:
    """Return the environment of a cache that accepts connections on the inherited socket `listener`.

    The operator's TOWPATH_CACHE_DIRECTORY takes precedence over `directory`.
    """
    return {
        "TOWPATH_CACHE_DIRECTORY": str(directory),
        "TOWPATH_LOG_FORMAT": log_format,
        **for_service(inherited, "cache", "CacheSettings"),
        **({"TOWPATH_PUBLIC_URL": public_url} if public_url else {}),
        "TOWPATH_CACHE_UPSTREAM": upstream,
        "TOWPATH_LISTEN": f"fd:{listener}",
        "TOWPATH_DRAIN_SECONDS": str(drain_seconds),
        "TOWPATH_LIFELINE_FD": str(lifeline),
    }


@dataclass(frozen=True)
class Environments:
    """The builder of the environments.

    `inherited` is the environment of `up`, and `lifeline` the reading end of the lifeline's pipe. `memory` is a folder
    in memory for storage and facade; the operator's TOWPATH_SHARED_MEMORY_PATH takes precedence over it.
    """

    inherited: Mapping[str, str] = field(repr=False)
    runtime: Path
    database_url: SecretStr
    lifeline: int
    log_format: str
    memory: Path | None = None
    storage_admin_secret: str = field(default_factory=partial(secrets.token_urlsafe, 32), repr=False)
    ssh_secret: str = field(default_factory=partial(secrets.token_urlsafe, 32), repr=False)

    @property
    def locks_address(self) -> str:
        """The gRPC address of the locks service."""
        return f"unix:{self.runtime / LOCKS_SOCKET}"

    @property
    def storage_address(self) -> str:
        """The gRPC address of the storage service."""
        return f"unix:{self.runtime / STORAGE_SOCKET}"

    def _with(self, service: str, settings: str, **decided: str) -> dict[str, str]:
        kept = for_service(self.inherited, service, settings)
        kept.setdefault("TOWPATH_LOG_FORMAT", self.log_format)
        return {**kept, **decided, "TOWPATH_LIFELINE_FD": str(self.lifeline)}

    def _secret(self, name: str, made: str) -> dict[str, str]:
        """Return a secret that only two of the services share: a new one at each start, unless the operator sets it."""
        return {} if self.inherited.get(name) else {name: made}

    def _shared_memory(self) -> dict[str, str]:
        return {} if self.memory is None or _SHARED_MEMORY in self.inherited else {_SHARED_MEMORY: str(self.memory)}

    def storage(self, storage_url: str, *, drain_seconds: float) -> dict[str, str]:
        """Return the environment of the storage service."""
        return self._with(
            "storage",
            "StorageSettings",
            TOWPATH_STORAGE_LISTEN=self.storage_address,
            TOWPATH_STORAGE_DATABASE_URL=self.database_url.get_secret_value(),
            TOWPATH_STORAGE_URL=storage_url,
            **self._secret(_STORAGE_ADMIN_SECRET, self.storage_admin_secret),
            TOWPATH_DRAIN_SECONDS=str(drain_seconds),
            **self._shared_memory(),
        )

    def locks(self, *, drain_seconds: float) -> dict[str, str]:
        """Return the environment of the locks service."""
        return self._with(
            "locks",
            "LocksSettings",
            TOWPATH_LOCKS_LISTEN=self.locks_address,
            TOWPATH_LOCKS_DATABASE_URL=self.database_url.get_secret_value(),
            TOWPATH_STORAGE_ADDRESS=self.storage_address,
            **self._secret(_STORAGE_ADMIN_SECRET, self.storage_admin_secret),
            **self._secret(_SSH_SECRET, self.ssh_secret),
            TOWPATH_DRAIN_SECONDS=str(drain_seconds),
        )

    def bootstrap(self) -> dict[str, str]:
        """Return the environment of the process that makes the administrator."""
        return self._with("locks", "BootstrapSettings", TOWPATH_LOCKS_DATABASE_URL=self.database_url.get_secret_value())

    def facade(
        self,
        listener: int,
        *,
        storage_url: str,
        signing_key: str,
        public_url: str | None,
        drain_seconds: float,
        number: int = 0,
    ) -> dict[str, str]:
        """Return the environment of a facade that accepts connections on the inherited socket `listener`.

        `number` counts the facades of this host from 0: each facade serves its metrics on another port. Raises
        `CommandError` if the operator's address for the metrics is invalid.
        """
        decided = {"TOWPATH_PUBLIC_URL": public_url} if public_url else {}
        if number and (metrics := self.inherited.get(_FACADE_METRICS)):
            decided[_FACADE_METRICS] = _later_port(metrics, number)
        if _SHARED_DISK not in self.inherited and (parts := urlsplit(storage_url)).scheme == "file":
            decided[_SHARED_DISK] = unquote(parts.path)
        return self._with(
            "facade",
            "FacadeSettings",
            TOWPATH_LISTEN=f"fd:{listener}",
            TOWPATH_STORAGE_ADDRESS=self.storage_address,
            TOWPATH_LOCKS_ADDRESS=self.locks_address,
            TOWPATH_SIGNING_KEY=signing_key,
            TOWPATH_DRAIN_SECONDS=str(drain_seconds),
            **decided,
            **self._shared_memory(),
        )

    def ssh(self, facade_url: str, *, public_url: str | None, drain_seconds: float) -> dict[str, str] | None:
        """Return the environment of the SSH service; None unless the operator has set its socket."""
        if not self.inherited.get(SSH_LISTEN):
            return None
        decided = {"TOWPATH_PUBLIC_URL": public_url} if public_url else {}
        return self._with(
            "ssh",
            "SshSettings",
            **self._secret(_SSH_SECRET, self.ssh_secret),
            TOWPATH_LOCKS_ADDRESS=self.locks_address,
            TOWPATH_SSH_FACADE_URL=facade_url,
            TOWPATH_DRAIN_SECONDS=str(drain_seconds),
            **decided,
        )


def _later_port(listen: str, later: int) -> str:
    """Return HOST:PORT with the port increased by `later`; port 0, meaning any free port, stays."""
    try:
        address = Address.parse(listen)
    except ValueError as error:
        raise CommandError(f"{_FACADE_METRICS}: {error}") from error
    return str(Address(address.host, address.port + later)) if address.port else listen
