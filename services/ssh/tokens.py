"""Keys by their fingerprints, and tokens for their sessions.

A token is for one repository, and to read it or to write it. It is shared by the sessions of a key for the same that
begin within five minutes, so that a client with eight connections is given one row. The id of a key is never used
again: a key that was removed and added again gets a new token.
"""

import asyncio
import time
from dataclasses import dataclass

from towpath.access.v1 import access_service_pb2 as pb
from towpath.access.v1.access_service_pb2_grpc import AccessServiceStub

from services.common.errors import NotFound, Reason
from services.common.rpc.client import ServiceClient
from services.ssh.command import Command

ACCESS_SERVICE = "towpath.access.v1.AccessService"
REPEATABLE = {ACCESS_SERVICE: ["FindSshKey", "IssueSessionToken"]}

_SHARED_SECONDS = 300
_MAX_VALID_SECONDS = 31 * 24 * 3600
_MAX_KEPT = 10_000
_LOCKS = 64


@dataclass(frozen=True)
class SessionToken:
    """A token, its key and user, and the time (of `time.monotonic`) until which new sessions get it."""

    key_id: int
    user_name: str
    secret: str
    shared_until: float


class Keys:
    """The keys that the lock service knows."""

    def __init__(self, locks: ServiceClient, action_seconds: int) -> None:
        self._client = locks
        self._stub = AccessServiceStub(locks.channel)
        self._valid_seconds = min(action_seconds + _SHARED_SECONDS, _MAX_VALID_SECONDS)
        self._tokens: dict[tuple[int, str, bool], SessionToken] = {}
        self._locks = [asyncio.Lock() for _ in range(_LOCKS)]

    async def find(self, fingerprint: str) -> pb.FindSshKeyResponse:
        """Return a key. Raises the `ServiceError` of the lock service: `NotFound` if nobody has it."""
        request = pb.FindSshKeyRequest(fingerprint=fingerprint)
        response: pb.FindSshKeyResponse = await self._client.call(self._stub.FindSshKey, request)
        return response

    async def token(self, fingerprint: str, command: Command) -> SessionToken:
        """Return a token of the key's user for a command, which lives as long as an action. Raises as `find` does."""
        key = await self.find(fingerprint)
        purpose = command.repository, command.writes
        async with self._locks[key.key_id % _LOCKS]:
            known = self._tokens.get((key.key_id, *purpose))
            if known is not None and time.monotonic() < known.shared_until:
                return known
            asked_at = time.monotonic()
            request = pb.IssueSessionTokenRequest(
                fingerprint=fingerprint,
                repository=command.repository,
                may_write=command.writes,
                valid_seconds=self._valid_seconds,
            )
            issued = await self._client.call(self._stub.IssueSessionToken, request)
            token = SessionToken(issued.key_id, issued.user_name, issued.token, asked_at + _SHARED_SECONDS)
            self._make_room()
            self._tokens[issued.key_id, *purpose] = token
            return token

    async def renew(self, fingerprint: str, command: Command, refused: SessionToken) -> SessionToken:
        """Return another token than the one that was refused, of the same key. Raises as `find` does."""
        purpose = refused.key_id, command.repository, command.writes
        if self._tokens.get(purpose) is refused:
            del self._tokens[purpose]
        token = await self.token(fingerprint, command)
        if token.key_id != refused.key_id:
            # It was removed, and added again: sessions end with the key, whoever has it now.
            raise NotFound(Reason.SSH_KEY_NOT_FOUND, "the key of this session was removed")
        return token

    def _make_room(self) -> None:
        if len(self._tokens) >= _MAX_KEPT:
            now = time.monotonic()
            kept = {purpose: token for purpose, token in self._tokens.items() if token.shared_until > now}
            self._tokens = kept if len(kept) < _MAX_KEPT else {}
