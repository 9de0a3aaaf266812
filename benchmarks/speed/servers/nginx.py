"""nginx as the limit of what serving files over HTTP can be: sendfile, and no rules at all."""

import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from benchmarks.speed import programs
from benchmarks.speed.blobs import Blob
from benchmarks.speed.client import Request, Site
from benchmarks.speed.servers.server import Missing, Server
from tests.support.ports import free_ports

_CONFIGURATION = """\
daemon off;
worker_processes auto;
pid {data}/nginx.pid;
error_log {data}/error.log;
{user}
events {{}}
http {{
    access_log off;
    sendfile on;
    tcp_nopush on;
    default_type application/octet-stream;
    client_body_temp_path {data}/body;
    proxy_temp_path {data}/proxy;
    fastcgi_temp_path {data}/fastcgi;
    uwsgi_temp_path {data}/uwsgi;
    scgi_temp_path {data}/scgi;
    server {{
        listen 127.0.0.1:{port};
        root {data}/objects;
    }}
}}
"""


class Nginx(Server):
    """Files in a folder."""

    name = "nginx"

    def install(self) -> str:
        """Find it. Raises `Missing`."""
        if programs.find("nginx") is None:
            raise Missing("nginx is not installed")
        return programs.output_of(self._program, "-v")

    @property
    def _program(self) -> str:
        return programs.find("nginx") or "nginx"

    @contextmanager
    def running(self, data: Path) -> Iterator[Site]:
        """Run it, with a worker for each core."""
        (data / "objects").mkdir(parents=True, exist_ok=True)
        [port] = free_ports(1)
        configuration = data / "nginx.conf"
        # Its workers read folders that only their owner enters.
        user = f"user {data.owner()};" if data.owner() == "root" else ""
        configuration.write_text(_CONFIGURATION.format(data=data, port=port, user=user))
        origin = f"http://127.0.0.1:{port}"
        with programs.server([self._program, "-c", configuration], origin, data, {}) as pid:
            yield Site(origin, origin, pid)

    def downloads(self, site: Site, objects: Sequence[Blob]) -> list[Request]:
        """Return the addresses of the files."""
        return [Request("GET", f"{site.origin}/{blob.oid}", {}) for blob in objects]

    def hold(self, site: Site, data: Path, objects: Sequence[Blob]) -> None:
        """Copy them."""
        for blob in objects:
            shutil.copyfile(blob.path, data / "objects" / blob.oid)
