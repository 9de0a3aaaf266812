"""Sign-ins in a browser, as a caller of AccessService begins and finishes them."""

import base64
import hashlib
import secrets
from dataclasses import dataclass, field
from typing import Any

from towpath.access.v1 import access_service_pb2 as access

from tests.support.locks import RunningLocks

REDIRECT_URI = "http://127.0.0.1:9999/-/sign-in/callback"


@dataclass
class BrowserSignIn:
    """One sign-in, and what is kept with the browser meanwhile."""

    service: RunningLocks
    issuer: str
    redirect_uri: str = REDIRECT_URI
    state: str = field(default_factory=secrets.token_urlsafe)
    nonce: str = field(default_factory=secrets.token_urlsafe)
    verifier: str = field(default_factory=secrets.token_urlsafe)

    @property
    def challenge(self) -> str:
        """The challenge of the verifier (RFC 7636, 4.2)."""
        digest = hashlib.sha256(self.verifier.encode()).digest()
        return base64.urlsafe_b64encode(digest).rstrip(b"=").decode()

    async def start(self, **other: str) -> str:
        """Begin, with `other` fields of the request, and return the URL for the browser."""
        fields = {
            "issuer": self.issuer,
            "redirect_uri": self.redirect_uri,
            "state": self.state,
            "nonce": self.nonce,
            "code_challenge": self.challenge,
        }
        request = access.StartSignInRequest(**{**fields, **other})
        return (await self.service.peer.call(self.service.access.StartSignIn, request)).authorization_url

    async def finish(self, code: str, **other: Any) -> access.FinishSignInResponse:  # noqa: ANN401 - fields of the request
        """Finish, with `other` fields of the request."""
        fields: dict[str, Any] = {
            "issuer": self.issuer,
            "redirect_uri": self.redirect_uri,
            "code": code,
            "code_verifier": self.verifier,
            "nonce": self.nonce,
        }
        request = access.FinishSignInRequest(**{**fields, **other})
        return await self.service.peer.call(self.service.access.FinishSignIn, request)
