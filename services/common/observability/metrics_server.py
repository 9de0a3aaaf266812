"""`GET /metrics` for Prometheus, on a separate port and by separate threads, for scrapers that present the token.

On the same port, `GET /healthz` reports to anybody whether the process runs, and for a gRPC service `GET /readyz` also
whether it is ready: a probe need not speak gRPC.
"""

import hmac
import socket
import threading
from collections.abc import Callable, Mapping
from http import HTTPStatus
from http.server import ThreadingHTTPServer
from socketserver import TCPServer
from typing import ClassVar

from prometheus_client import MetricsHandler
from pydantic import SecretStr

from services.common.addresses import Address, is_loopback
from services.common.observability.logs import get_logger

_REQUEST_SECONDS = 10

_log = get_logger(__name__)


Probes = Mapping[str, Callable[[], bool]]
"""Functions for any thread, by the path at which each is answered with 200 or 503."""


def serve_metrics(listen: str, token: SecretStr | None, probes: Probes) -> Callable[[], None]:
    """Serve the process's metrics at `listen` (HOST:PORT; port 0 takes any free port, and the log reports it).

    The probes are answered too. The caller ends the server by calling the returned function; that call takes up to half
    a second. Raises ValueError if `listen` is malformed, or if other hosts can reach it and there is no token; OSError
    if the address cannot be bound.
    """
    try:
        address = Address.parse(listen)
    except ValueError as error:
        raise ValueError(f"metrics_listen: {error}") from None
    if token is None and not is_loopback(address.host):
        raise ValueError(f"metrics_token: needed to serve metrics at {listen}, which other hosts can reach")
    server = _Server(address.host, address.port, token, probes)
    threading.Thread(target=server.serve_forever, name="metrics", daemon=True).start()
    _log.info("metrics", address=str(Address(address.host, server.server_address[1])))

    def end() -> None:
        server.shutdown()
        server.server_close()

    return end


class _Scrape(MetricsHandler):
    """One scrape: the library's answer, for callers that present the token."""

    timeout = _REQUEST_SECONDS
    token: bytes | None = None
    probes: ClassVar[Probes] = {}

    def do_GET(self) -> None:
        """Answer with the metrics, or with what a probe says."""
        if (probe := self.probes.get(self.path)) is not None:
            self._answer(HTTPStatus.OK if probe() else HTTPStatus.SERVICE_UNAVAILABLE)
            return
        shown = (self.headers.get("Authorization") or "").encode(errors="replace")
        if self.token is not None and not hmac.compare_digest(shown, b"Bearer " + self.token):
            self._answer(HTTPStatus.UNAUTHORIZED)
        elif self.path.partition("?")[0] != "/metrics":
            self._answer(HTTPStatus.NOT_FOUND)
        else:
            super().do_GET()

    def _answer(self, status: HTTPStatus) -> None:
        self.send_response(status)
        if status is HTTPStatus.UNAUTHORIZED:
            self.send_header("WWW-Authenticate", "Bearer")
        self.send_header("Content-Length", "0")
        self.end_headers()


class _Server(ThreadingHTTPServer):
    def __init__(self, host: str, port: int, token: SecretStr | None, probes: Probes) -> None:
        # Set first, because the base class binds in its constructor.
        self.address_family = socket.AF_INET6 if ":" in host else socket.AF_INET
        secret = token.get_secret_value().encode() if token is not None else None
        super().__init__((host, port), type("Scrape", (_Scrape,), {"token": secret, "probes": probes}))

    def server_bind(self) -> None:
        """Bind without the base class's DNS lookup of the host's own name: it may be slow, and nothing uses it."""
        TCPServer.server_bind(self)

    def handle_error(self, request: object, client_address: object) -> None:
        """Ignore the error: the scraper went away, or the client is no scraper."""
