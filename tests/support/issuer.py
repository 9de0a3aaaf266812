"""An issuer of JSON Web Tokens on a loopback port, whose every token a test writes itself: also those that are no good.

The tests of sign-in run a real provider, see `tests.support.oidc_provider`; a real one signs no bad tokens.
"""

import base64
import hmac
import json
import threading
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qsl

from joserfc import jws
from joserfc.jwk import ECKey, OKPKey, RSAKey

AUDIENCE = "https://lfs.example.org"
_ports: set[int] = set()


def encoded(value: object) -> str:
    """Return JSON in base64url, as the parts of a JSON Web Token are."""
    return base64.urlsafe_b64encode(json.dumps(value).encode()).rstrip(b"=").decode()


class Issuer:
    """The issuer: its URL, its keys, and the paths that were asked for."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.keys: list[RSAKey | ECKey | OKPKey] = [RSAKey.generate_key(2048, {"kid": "first", "use": "sig"})]
        self.requests: list[str] = []
        self.is_answering = True
        self.named_url = url
        self.discovery: dict[str, Any] = {}
        self.redeemed: list[dict[str, str]] = []
        self.token_answer: tuple[int, object] = (400, {"error": "invalid_grant"})
        """The status and the JSON for every code."""
        self.may_redeem = threading.Event()
        self.may_redeem.set()

    @property
    def key_readings(self) -> int:
        """The number of times that the key set was read."""
        return self.requests.count("/keys")

    def answer(self, path: str) -> dict[str, Any] | None:
        """Return the document at a path."""
        if path == "/.well-known/openid-configuration":
            return {"issuer": self.named_url, "jwks_uri": f"{self.url}/keys", **self.discovery}
        return {"keys": [key.as_dict(private=False) for key in self.keys]} if path == "/keys" else None

    def claims(self, **claims: Any) -> dict[str, Any]:  # noqa: ANN401 - claims are whatever JSON the test writes
        """Return the claims of a token that is valid for five minutes; None leaves a claim out."""
        now = int(time.time())
        standard = {"iss": self.url, "aud": AUDIENCE, "iat": now, "exp": now + 300, "sub": "17"}
        return {name: value for name, value in {**standard, **claims}.items() if value is not None}

    def token(self, *, header: dict[str, Any] | None = None, **claims: Any) -> str:  # noqa: ANN401 - see `claims`
        """Return a token that is signed with the newest key."""
        key = self.keys[-1]
        algorithm = {"RSA": "RS256", "EC": "ES256", "OKP": "EdDSA"}[key.key_type]
        protected = {"alg": algorithm, "typ": "JWT", "kid": key.kid, **(header or {})}
        known = {name: value for name, value in protected.items() if value is not None}
        payload = json.dumps(self.claims(**claims))
        registry = jws.JWSRegistry(algorithms=[algorithm], strict_check_header=False)
        registry.max_header_length = registry.max_payload_length = 2**20
        with warnings.catch_warnings():
            # The library prefers the name Ed25519 to EdDSA.
            warnings.simplefilter("ignore")
            return jws.serialize_compact(known, payload, key, algorithms=[algorithm], registry=registry)

    def unsigned(self, **claims: Any) -> str:  # noqa: ANN401 - see `claims`
        """Return a token of the algorithm `none`."""
        return f"{encoded({'alg': 'none'})}.{encoded(self.claims(**claims))}."

    def signed_with_public_key(self, **claims: Any) -> str:  # noqa: ANN401 - see `claims`
        """Return a token that is signed with the newest public key, which everybody knows, as the secret of HS256."""
        key = self.keys[-1]
        signed = f"{encoded({'alg': 'HS256', 'kid': key.kid})}.{encoded(self.claims(**claims))}"
        signature = hmac.digest(key.as_pem(private=False), signed.encode(), "sha256")
        return f"{signed}.{base64.urlsafe_b64encode(signature).rstrip(b'=').decode()}"


def _listening(handler: type[BaseHTTPRequestHandler]) -> ThreadingHTTPServer:
    """Listen on a port that no issuer of this process has had: a service that tests share has each URL once."""
    while True:
        server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        if server.server_port not in _ports:
            _ports.add(server.server_port)
            return server
        server.server_close()


@contextmanager
def running_issuer() -> Iterator[Issuer]:
    """Run an issuer until the block ends."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            issuer.requests.append(self.path)
            found = issuer.answer(self.path) if issuer.is_answering else None
            body = json.dumps(found).encode()
            self.send_response(503 if not issuer.is_answering else 404 if found is None else 200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def do_POST(self) -> None:
            form = self.rfile.read(int(self.headers["Content-Length"])).decode()
            issuer.redeemed.append(dict(parse_qsl(form, strict_parsing=True)))
            issuer.may_redeem.wait()
            status, found = issuer.token_answer
            body = json.dumps(found).encode()
            self.send_response(status)
            self.send_header("Location", f"{issuer.url}/elsewhere")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *arguments: object) -> None:  # noqa: A002 - the name of the overridden one
            """Write nothing."""

    server = _listening(Handler)
    issuer = Issuer(f"http://127.0.0.1:{server.server_port}")
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield issuer
    finally:
        issuer.may_redeem.set()
        server.shutdown()
        server.server_close()
        thread.join()
