"""Two hosts of one site: they share a database and a bucket, and a proxy passes requests to both by turns."""

import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import psutil

from tests.support import stack
from tests.support.folders import temporary_folder
from tests.support.proxies import free_port, running_nginx
from tests.support.stack import Stack
from tests.support.waiting import START_SECONDS, STEP_SECONDS

_SETTINGS = {"TOWPATH_TRUSTED_PROXIES": "127.0.0.1"}
_SHARED = ("admin-token", "signing-key")


@dataclass
class TwoHosts(Stack):
    """Two `towpath up`: the second has the database of the first, and the same secrets. `origin` is the proxy's."""

    def __post_init__(self) -> None:
        self.first = Stack(
            self.data, self.arguments, self.environment, listen=f"127.0.0.1:{free_port()}", bucket=self.bucket
        )
        self.second = Stack(
            self.data.with_name(f"{self.data.name}-2"),
            environment=self.environment,
            listen=f"127.0.0.1:{free_port()}",
            bucket=self.bucket,
        )

    def start(self, *, seconds: float = START_SECONDS) -> None:
        """Start both, and wait until both are ready."""
        self.first.start(seconds=seconds)
        self.second.data.mkdir(exist_ok=True)
        for name in _SHARED:
            (self.second.data / name).touch(mode=0o600)
            (self.second.data / name).write_text((self.data / name).read_text())
        database_url = self.first.service("storage").environ()["TOWPATH_STORAGE_DATABASE_URL"]
        self.second.arguments = ("--database-url", database_url)
        self.second.start(seconds=seconds)

    def services(self, name: str) -> list[psutil.Process]:
        """Return the processes of a service on both hosts; Postgres runs on the first."""
        return [*self.first.services(name), *self.second.services(name)]

    def processes(self) -> list[psutil.Process]:
        """Return all processes of both."""
        return [*self.first.processes(), *self.second.processes()]

    def log(self) -> str:
        """Return what both have logged."""
        return self.first.log() + self.second.log()

    def stop(self, *, seconds: float = STEP_SECONDS) -> int:
        """Stop both, the one with the database last; return its exit status, or the other's where that is not 0."""
        return self.second.stop(seconds=seconds) or self.first.stop(seconds=seconds)

    def kill(self) -> None:
        """Kill every process of both."""
        self.second.kill()
        self.first.kill()


@contextmanager
def running_two_hosts() -> Iterator[Stack]:
    """Run two hosts on fresh data folders, the first with `--demo`, behind nginx as docs/operations.md says."""
    bucket = stack.new_bucket()
    assert bucket is not None, "two hosts share no disk"
    with temporary_folder() as folder:
        site = TwoHosts(folder / "var", ("--demo",), _SETTINGS, bucket=bucket)
        upstreams = [site.first.listen, site.second.listen]
        (folder / "nginx").mkdir()
        with running_nginx(folder / "nginx", upstreams) as proxy:
            site.origin = proxy.origin
            site.trust = ssl.create_default_context(cafile=str(proxy.files.authority))
            try:
                site.start()
                yield site
            finally:
                for host in (site.second, site.first):
                    if host.process is not None and host.process.poll() is None:
                        host.stop()
