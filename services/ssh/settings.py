"""Settings of the SSH service."""

import os
import pwd
from pathlib import Path

from pydantic import Field

from services.common.settings import Seconds, Secret, ServiceSettings

_MONTH_SECONDS = 31 * 24 * 3600


class SshSettings(ServiceSettings):
    """The settings that sessions over SSH need."""

    ssh_listen: Path = Field(
        description="the path of the unix socket on which the SSH service listens, such as `/run/towpath/ssh.sock`; "
        "`towpath up` runs the service where this is set"
    )
    ssh_secret: Secret | None = Field(
        default=None,
        description="the secret by which the SSH service gets the tokens of sessions, beside `service_secret`, at "
        "least 16 characters; `towpath up` makes one at each start",
    )
    ssh_metrics_listen: str | None = Field(
        default=None, description="where Prometheus reads `/metrics`: `HOST:PORT`, by default nowhere"
    )
    ssh_users: str | None = Field(
        default=None,
        description="the accounts whose processes may open sessions, beside root and the account of the service, "
        "separated by commas: the one that sshd logs in, such as `git`",
    )
    ssh_facade_url: str = Field(
        default="http://127.0.0.1:8080",
        pattern=r"^https?://[^/\s]+$",
        description="where the SSH service reaches a facade, such as `http://facade:8080`",
    )
    ssh_transfer: bool = Field(
        default=True,
        description="whether clients may move objects through SSH (`git-lfs-transfer`), beside getting a token for "
        "HTTP by it (`git-lfs-authenticate`)",
    )
    ssh_sessions: int = Field(
        default=256, ge=1, description="the most sessions over SSH at once, a quarter of which may be of one user"
    )
    ssh_idle_seconds: Seconds = Field(
        default=3_600.0, description="how long a session over SSH may send no command before it is ended"
    )
    public_url: str | None = Field(
        default=None,
        description="the address under which clients reach the facade, such as `https://lfs.example.org`, with a path "
        "where a proxy puts it under one; by default what each request names as its host",
    )
    https_certificate: Path | None = Field(
        default=None,
        description="a PEM file with the certificate and what leads to its authority, to serve HTTPS; "
        "renewed files are seen within a minute",
    )
    locks_address: str = Field(
        description="where the lock service is reached: `unix:PATH`, or `HOST:PORT` for all replicas of that name"
    )
    action_seconds: int = Field(
        default=3_600, ge=60, le=_MONTH_SECONDS, description="how long the action of a batch's answer can be used"
    )
    rpc_seconds: Seconds = Field(
        default=12.0, description="how long an inner service may take to answer, its restart included"
    )

    def user_ids(self) -> frozenset[int]:
        """Return the ids of the accounts that may open sessions. Raises ValueError for an unknown account."""
        names = [name.strip() for name in (self.ssh_users or "").split(",") if name.strip()]
        try:
            return frozenset({0, os.geteuid(), *(pwd.getpwnam(name).pw_uid for name in names)})
        except KeyError as error:
            raise ValueError(f"TOWPATH_SSH_USERS: expected accounts of this host, got {self.ssh_users!r}") from error
