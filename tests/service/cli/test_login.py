"""`towpath login` at a server, or an issuer, that answers what it likes: it ends with a reason, and soon."""

import json
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qsl

import pytest

from services.cli.sign_in import provider as issuers
from services.cli.sign_in import web
from services.cli.sign_in.tokens import sign_in
from services.cli.sign_in.web import WebError

_TOWPATH, _DISCOVERY = "/.well-known/towpath", "/.well-known/openid-configuration"
_DEVICE, _TOKEN, _EXCHANGE = "/device", "/token", "/-/token"


@dataclass
class Server:
    """A server that is its own issuer; `answers` has what it says at each path."""

    origin: str
    answers: dict[str, Any] = field(default_factory=dict)
    drips: bool = False
    forms: dict[str, dict[str, str]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.answers |= {
            _TOWPATH: {"issuers": [{"name": "sso", "issuer": self.origin, "client_id": "cli"}]},
            _DISCOVERY: {
                "issuer": self.origin,
                "device_authorization_endpoint": f"{self.origin}{_DEVICE}",
                "token_endpoint": f"{self.origin}{_TOKEN}",
            },
            _DEVICE: {"verification_uri": "https://x", "user_code": "ABC", "device_code": "d", "interval": 1},
            _TOKEN: {"id_token": "a.b.c"},
            _EXCHANGE: {"access_token": "tp_x", "expires_in": 60, "user": "alice"},
        }

    def log_in(self) -> issuers.Device:
        """Sign in as the command does, without its pauses."""
        provider = issuers.find_provider(self.origin)
        device = issuers.start(provider)
        sign_in(self.origin, provider, issuers.wait(provider, device, sleep=lambda _: None))
        return device


@pytest.fixture
def server() -> Iterator[Server]:
    """One that means well, until a test changes its answers."""
    ended = threading.Event()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            answer = running.answers[self.path]
            self.wfile.write(answer if isinstance(answer, bytes) else json.dumps(answer).encode())
            while running.drips and not ended.wait(0.05):
                self.wfile.write(b" ")
                self.wfile.flush()

        def do_POST(self) -> None:
            form = self.rfile.read(int(self.headers["Content-Length"])).decode()
            running.forms[self.path] = dict(parse_qsl(form))
            self.do_GET()

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as listening:
        running = Server(f"http://127.0.0.1:{listening.server_port}")
        thread = threading.Thread(target=listening.serve_forever, args=(0.01,))
        thread.start()
        yield running
        ended.set()
        listening.shutdown()
        thread.join()


@pytest.mark.parametrize(
    ("path", "change", "reason"),
    [
        (_TOWPATH, {"issuers": [1, "x", None]}, "nobody signs in here"),
        (_TOWPATH, {"issuers": [{"name": "sso", "issuer": 5}]}, "issuer: expected a text"),
        (_TOWPATH, {"issuers": [{"name": "sso", "issuer": "https://[", "client_id": "x"}]}, "expected https"),
        (_TOWPATH, {"issuers": [{"name": "sso", "issuer": "x", "client_id": "x"}]}, "expected https"),
        (_TOWPATH, b"[" * 100_000, "no JSON object"),
        (_TOWPATH, b"1" * 5_000, "no JSON object"),
        (_TOWPATH, b" " * 300_000, "no JSON object"),
        (_DISCOVERY, {"token_endpoint": "http://127.0.0.1:1/\u00e9"}, "no token_endpoint by https"),
        (_DISCOVERY, {"token_endpoint": None}, "no token_endpoint by https"),
        (_DISCOVERY, {"device_authorization_endpoint": "http://127.0.0.1:x/"}, "x"),
        (_DEVICE, {"interval": float("nan")}, "interval: expected a number of seconds"),
        (_DEVICE, {"interval": -1}, "interval: expected a number of seconds"),
        (_DEVICE, {"interval": [5]}, "interval: expected a number of seconds"),
        (_DEVICE, {"expires_in": "soon"}, "expires_in: expected a number of seconds"),
        (_DEVICE, {"expires_in": 10**400}, "expires_in: expected a number of seconds"),
        (_DEVICE, {"user_code": {}}, "user_code: expected a text"),
        (_DEVICE, {"device_code": 7}, "device_code: expected a text"),
        (_TOKEN, {"id_token": 7}, "no ID token"),
        (_EXCHANGE, {"access_token": None}, "access_token: expected a text"),
        (_EXCHANGE, {"expires_in": 10**400}, "expires_in: expected 1 to"),
        (_EXCHANGE, {"expires_in": -1}, "expires_in: expected 1 to"),
    ],
)
def test_an_odd_answer_is_an_error_with_a_reason(
    server: Server,
    path: str,
    change: Any,  # noqa: ANN401 - any JSON
    reason: str,
) -> None:
    """No traceback, and nothing that a later command stumbles over."""
    server.answers[path] = {**server.answers[path], **change} if isinstance(change, dict) else change
    with pytest.raises(WebError, match=reason) as caught:
        server.log_in()
    assert len(str(caught.value)) <= 1_000
    assert str(caught.value).isprintable()


def test_an_issuer_like_google(server: Server) -> None:
    """It has a name of its own for the address of a code, and asks for the client's secret, which is public."""
    client = {"client_id": "cli", "client_secret": "public"}
    server.answers[_TOWPATH] = {"issuers": [{"name": "sso", "issuer": server.origin, **client}]}
    server.answers[_DEVICE]["verification_url"] = server.answers[_DEVICE].pop("verification_uri")
    assert server.log_in().address == "https://x"
    assert server.forms[_TOKEN].items() >= client.items()
    assert "client_secret" not in server.forms[_DEVICE]


def test_nobody_waits_for_ever(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """A code lasts an hour at most, is not asked about without a pause, and a body that drips is given up."""
    server.answers[_DEVICE] |= {"expires_in": float("inf"), "interval": 0}
    device = server.log_in()
    assert (device.seconds, device.interval) == (3_600, 1)
    server.drips = True
    monkeypatch.setattr(web, "_SECONDS", 0.3)
    with pytest.raises(WebError, match="no answer within"):
        web.get_json(f"{server.origin}{_TOWPATH}")
