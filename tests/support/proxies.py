"""Proxies as docs/operations.md configures them, on loopback ports, with certificates of the tests."""

import json
import os
import shutil
import socket
import subprocess
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil

from tests.support.certificates import CertificateFiles, write_certificate
from tests.support.ports import free_ports
from tests.support.programs import needed
from tests.support.snippets import ROOT, replaced, snippet
from tests.support.waiting import START_SECONDS, STEP_SECONDS, blocking_until

PAGE = "operations.md"
NAME = "localhost"


@dataclass(frozen=True)
class Request:
    """A line of a proxy's access log: `connection` is the same for all requests of one connection."""

    method: str
    protocol: str
    connection: str
    status: int


@dataclass
class Proxy:
    """A proxy that runs."""

    origin: str
    files: CertificateFiles
    process: subprocess.Popen[bytes]
    log: Path
    read: Callable[[str], Request]

    def requests(self) -> list[Request]:
        """Return all requests that it has answered."""
        return [self.read(line) for line in self.log.read_text().splitlines()]

    def memory(self) -> int:
        """Return how many bytes of memory its processes have."""
        own = psutil.Process(self.process.pid)
        return sum(process.memory_info().rss for process in (own, *own.children(recursive=True)))


def free_port() -> int:
    """Return a port that nobody listens on for the moment."""
    [port] = free_ports(1)
    return port


@contextmanager
def _running(
    folder: Path, command: Sequence[str], origin_port: int, files: CertificateFiles, read: Callable[[str], Request]
) -> Iterator[Proxy]:
    output = folder / "output.log"
    environment = {"PATH": os.environ["PATH"], "HOME": str(folder), "XDG_DATA_HOME": str(folder)}
    log = folder / "access.log"
    log.touch()
    with output.open("wb") as out:
        process = subprocess.Popen(command, cwd=folder, stdout=out, stderr=out, env=environment)
    try:
        blocking_until(lambda: _listens(process, origin_port, output), f"{command[0]} listens", seconds=START_SECONDS)
        yield Proxy(f"https://{NAME}:{origin_port}", files, process, log, read)
    finally:
        process.terminate()
        process.wait(STEP_SECONDS)


def _listens(process: subprocess.Popen[bytes], port: int, output: Path) -> bool:
    assert process.poll() is None, f"it ended:\n{output.read_text()}"
    try:
        socket.create_connection(("127.0.0.1", port), timeout=1).close()
    except ConnectionRefusedError:
        return False
    return True


_NGINX = """\
daemon off;
worker_processes 1;
pid {folder}/nginx.pid;
error_log {folder}/error.log info;
events {{ worker_connections 512; }}
http {{
    log_format tests '{{"method":"$request_method","protocol":"$server_protocol",'
                     '"connection":"$connection","status":$status}}';
    access_log {folder}/access.log tests;
    client_body_temp_path {folder}/bodies;
    proxy_temp_path {folder}/answers;
    fastcgi_temp_path {folder}/unused;
    uwsgi_temp_path {folder}/unused;
    scgi_temp_path {folder}/unused;
{server}
}}
"""


def _nginx_request(line: str) -> Request:
    return Request(**json.loads(line))


@contextmanager
def running_nginx(
    folder: Path, upstreams: Sequence[str], *, sub_path: bool = False, block: tuple[str, str] = (PAGE, "nginx")
) -> Iterator[Proxy]:
    """Run nginx in front of these two `HOST:PORT`, as a block of a page says; the sub-path is `/lfs`."""
    files = write_certificate(folder / "tls", NAME, "127.0.0.1")
    port = free_port()
    server = snippet(*block)
    if sub_path:
        head, mark, rest = server.partition("    set $towpath_upstream")
        assert mark
        assert rest.endswith("}\n")
        server = head + snippet(PAGE, "nginx sub-path") + "}\n"
    server = replaced(
        server,
        ("listen 443 ssl", f"listen 127.0.0.1:{port} ssl"),
        ("lfs.example.org;", f"{NAME};"),
        ("/etc/ssl/lfs.example.org.pem", str(files.chain)),
        ("/etc/ssl/lfs.example.org.key", str(files.key)),
        ("127.0.0.1:8080", upstreams[0]),
        ("127.0.0.1:8081", upstreams[1]),
        ("/etc/nginx/towpath.conf", str(ROOT / "deploy" / "nginx" / "towpath.conf")),
    )
    configuration = folder / "nginx.conf"
    configuration.write_text(_NGINX.format(folder=folder, server=server))
    command = [needed("nginx"), "-e", "stderr", "-c", str(configuration)]
    with _running(folder, command, port, files, _nginx_request) as proxy:
        # Now whatever it would put on the disk fails.
        for unwanted in ("bodies", "answers", "unused"):
            shutil.rmtree(folder / unwanted)
        yield proxy


def _caddy_request(line: str) -> Request:
    told = json.loads(line)
    request = told["request"]
    return Request(request["method"], request["proto"], request["remote_port"], told["status"])


@contextmanager
def running_caddy(folder: Path, upstreams: Sequence[str], *, sub_path: bool = False) -> Iterator[Proxy]:
    """Run Caddy in front of these two `HOST:PORT`; the sub-path is `/lfs`."""
    files = write_certificate(folder / "tls", NAME, "127.0.0.1")
    port = free_port()
    site = snippet(PAGE, "caddy")
    if sub_path:
        head, mark, rest = site.partition("\treverse_proxy")
        _, errors, tail = rest.partition("\thandle_errors")
        assert mark
        assert errors
        site = head + snippet(PAGE, "caddy sub-path") + errors + tail
    log = f"\tlog {{\n\t\toutput file {folder}/access.log\n\t\tformat json\n\t}}\n"
    site = replaced(
        site,
        ("lfs.example.org {\n", f"https://{NAME}:{port} {{\n\tbind 127.0.0.1\n\ttls {files.chain} {files.key}\n{log}"),
        ("127.0.0.1:8080", upstreams[0]),
        ("127.0.0.1:8081", upstreams[1]),
    )
    configuration = folder / "Caddyfile"
    configuration.write_text("{\n\tadmin off\n\tauto_https disable_redirects\n}\n" + site)
    command = [needed("caddy"), "run", "--config", str(configuration), "--adapter", "caddyfile"]
    with _running(folder, command, port, files, _caddy_request) as proxy:
        yield proxy


@contextmanager
def running_haproxy(folder: Path, upstreams: Sequence[str], *, reusing: bool = False) -> Iterator[Proxy]:
    """Run HAProxy in front of these two `HOST:PORT`; it writes no access log.

    With `reusing`, it gives requests of one client the connections that it has opened for another.
    """
    files = write_certificate(folder / "tls", NAME, "127.0.0.1")
    port = free_port()
    whole = folder / "tls" / "whole.pem"
    whole.write_bytes(files.chain.read_bytes() + files.key.read_bytes())
    configuration = folder / "haproxy.cfg"
    configuration.write_text(
        replaced(
            snippet(PAGE, "haproxy"),
            ("bind :443", f"bind 127.0.0.1:{port}"),
            ("/etc/haproxy/lfs.example.org.pem", str(whole)),
            *([("option http-server-close", "http-reuse always")] if reusing else []),
            ("127.0.0.1:8080", upstreams[0]),
            ("127.0.0.1:8081", upstreams[1]),
        )
    )
    command = [needed("haproxy"), "-db", "-f", str(configuration)]
    with _running(folder, command, port, files, _no_request) as proxy:
        yield proxy


_APACHE = """\
ServerRoot {folder}
ServerName {name}
Listen 127.0.0.1:{port}
PidFile {folder}/apache.pid
DefaultRuntimeDir {folder}
ErrorLog {folder}/error.log
{modules}
{site}
"""
_APACHE_MODULES = Path("/usr/lib/apache2/modules")
_APACHE_NEEDS = (
    "mpm_event",
    "authz_core",
    "headers",
    "unique_id",
    "socache_shmcb",
    "slotmem_shm",
    "ssl",
    "http2",
    "proxy",
    "proxy_http",
    "proxy_balancer",
    "lbmethod_byrequests",
)


@contextmanager
def running_apache(folder: Path, upstreams: Sequence[str], *, reusing: bool = False) -> Iterator[Proxy]:
    """Run Apache, with the modules of Debian's package, in front of these two `HOST:PORT`; it writes no access log.

    With `reusing`, it gives requests of one client the connections that it has opened for another.
    """
    files = write_certificate(folder / "tls", NAME, "127.0.0.1")
    port = free_port()
    program = needed("apache2")
    site = replaced(
        snippet(PAGE, "apache").replace(" disablereuse=on", "" if reusing else " disablereuse=on"),
        ("<VirtualHost *:443>", f"<VirtualHost 127.0.0.1:{port}>"),
        ("lfs.example.org\n", f"{NAME}\n"),
        ("/etc/ssl/lfs.example.org.pem", str(files.chain)),
        ("/etc/ssl/lfs.example.org.key", str(files.key)),
        ("127.0.0.1:8080", upstreams[0]),
        ("127.0.0.1:8081", upstreams[1]),
    )
    modules = "\n".join(f"LoadModule {name}_module {_APACHE_MODULES}/mod_{name}.so" for name in _APACHE_NEEDS)
    configuration = folder / "apache.conf"
    configuration.write_text(_APACHE.format(folder=folder, name=NAME, port=port, modules=modules, site=site))
    command = [program, "-D", "FOREGROUND", "-f", str(configuration)]
    with _running(folder, command, port, files, _no_request) as proxy:
        yield proxy


Running = Callable[[Path, Sequence[str]], AbstractContextManager[Proxy]]
PROXIES: dict[str, Running] = {
    "nginx": running_nginx,
    "apache": running_apache,
    "haproxy": running_haproxy,
    "caddy": running_caddy,
}


def _no_request(line: str) -> Request:
    raise ValueError(f"no access log was expected, got {line}")
