"""The operator's calls over gRPC, without the second in which a command starts.

A call that takes something away returns before every facade knows. `Administration.until` waits for that.
"""

import time
from collections.abc import Callable, Iterable
from types import TracebackType
from typing import Self

import grpc
import httpx
from towpath.access.v1 import admin_service_pb2 as pb
from towpath.access.v1.admin_service_pb2_grpc import AdminServiceStub

from services.cli.up.runtime_directory import LOCKS_SOCKET, runtime_directory
from tests.support.stack import Stack
from tests.support.waiting import STEP_SECONDS

_PROMISED_SECONDS = 1.0
"""The time after which no facade lets in a request for something that was taken away."""
_PAUSE_SECONDS = 0.02
_ROLES = {"read": pb.ROLE_READ, "write": pb.ROLE_WRITE, "admin": pb.ROLE_ADMIN}


class Administration:
    """The AdminService of a stack, called with the stack's own administrator's token."""

    def __init__(self, stack: Stack) -> None:
        self._channel = grpc.insecure_channel(f"unix:{runtime_directory(stack.data.resolve()) / LOCKS_SOCKET}")
        self._stub = AdminServiceStub(self._channel)
        self._taken_at = 0.0
        self._metadata = (("authorization", f"Bearer {(stack.data / 'admin-token').read_text().strip()}"),)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._channel.close()

    def until(self, status: int, ask: Callable[[], httpx.Response]) -> httpx.Response:
        """Ask until the answer has the status that the last call leads to, and return it.

        A request that is sent after the promised second gets the answer, on a machine under load too.
        """
        while True:
            is_promised = time.monotonic() > self._taken_at + _PROMISED_SECONDS
            answer = ask()
            if answer.status_code == status or is_promised:
                assert answer.status_code == status
                return answer
            time.sleep(_PAUSE_SECONDS)

    def _take(self, call: Callable[..., object], request: object) -> None:
        call(request, STEP_SECONDS, self._metadata)
        self._taken_at = time.monotonic()

    def add_user(self, name: str) -> str:
        """Add a user and return a token."""
        self._stub.CreateUser(pb.CreateUserRequest(name=name), STEP_SECONDS, self._metadata)
        return self.add_token(name, "contract")

    def add_token(self, user: str, name: str, *, seconds: float | None = None) -> str:
        """Add a token, which expires after so many seconds if any are given, and return its secret."""
        request = pb.CreateTokenRequest(user_name=user, name=name)
        if seconds is not None:
            request.expires_at.FromNanoseconds(int((time.time() + seconds) * 1e9))
        return self._stub.CreateToken(request, STEP_SECONDS, self._metadata).secret

    def revoke_token(self, user: str, name: str) -> None:
        """End a token."""
        self._take(self._stub.RevokeToken, pb.RevokeTokenRequest(user_name=user, name=name))

    def add_repository(self, name: str, *, public: bool = False, admins_force: bool = False) -> None:
        """Add a repository."""
        forced_unlock = pb.FORCED_UNLOCK_ADMINS if admins_force else pb.FORCED_UNLOCK_WRITERS
        request = pb.CreateRepositoryRequest(name=name, public=public, forced_unlock=forced_unlock)
        self._stub.CreateRepository(request, STEP_SECONDS, self._metadata)

    def add_forge(self, name: str, api_url: str, repository: str) -> None:
        """Add a Gitea, and tie one of its repositories to a new one called `tied/NAME`."""
        forge = pb.CreateForgeRequest(name=name, kind=pb.FORGE_KIND_GITEA, api_url=api_url, repositories=[repository])
        self._stub.CreateForge(forge, STEP_SECONDS, self._metadata)
        tied = pb.CreateRepositoryRequest(name=f"tied/{name}", forge=name, forge_repository=repository)
        self._stub.CreateRepository(tied, STEP_SECONDS, self._metadata)

    def set_limits(self, name: str, *, quota: int) -> None:
        """Set the quota of a repository."""
        self._stub.SetLimits(pb.SetLimitsRequest(repository=name, quota_bytes=quota), STEP_SECONDS, self._metadata)

    def set_stale_after(self, name: str, seconds: int) -> None:
        """Set the age from which a lock of a repository may be stolen by every writer."""
        request = pb.UpdateRepositoryRequest(name=name, stale_after_seconds=seconds)
        self._stub.UpdateRepository(request, STEP_SECONDS, self._metadata)

    def set_lock_spaces(self, name: str, *rules: str) -> None:
        """Set the rules of a repository for lock spaces."""
        request = pb.UpdateRepositoryRequest(name=name, lock_spaces=pb.LockSpaces(rules=rules))
        self._stub.UpdateRepository(request, STEP_SECONDS, self._metadata)

    def rename_repository(self, name: str, new_name: str) -> None:
        """Give a repository another name."""
        self._take(self._stub.UpdateRepository, pb.UpdateRepositoryRequest(name=name, new_name=new_name))

    def remove_repository(self, name: str) -> None:
        """Remove a repository with all that it holds."""
        self._take(self._stub.DeleteRepository, pb.DeleteRepositoryRequest(name=name, force=True))

    def grant(self, user: str, repository: str, role: str, refs: Iterable[str] = ()) -> None:
        """Give a user a role in a repository, in place of the same role for other refs."""
        request = pb.GrantAccessRequest(
            user_name=user, repository=repository, role=_ROLES[role], ref_patterns=list(refs)
        )
        self._take(self._stub.GrantAccess, request)

    def remove_user(self, name: str) -> None:
        """Remove a user, with all tokens and grants."""
        self._take(self._stub.DeleteUser, pb.DeleteUserRequest(name=name))

    def archive_repository(self, name: str) -> None:
        """Let a repository be read only."""
        self._take(self._stub.UpdateRepository, pb.UpdateRepositoryRequest(name=name, archived=True))

    def limit_requests(self, name: str, *, per_hour: int) -> None:
        """Limit the requests of a user, who has made none yet."""
        request = pb.UpdateUserRequest(name=name, rate=pb.RequestRate(requests_per_hour=per_hour))
        self._stub.UpdateUser(request, STEP_SECONDS, self._metadata)

    def hide_repository(self, name: str) -> None:
        """Make a public repository private."""
        self._take(self._stub.UpdateRepository, pb.UpdateRepositoryRequest(name=name, public=False))

    def revoke(self, user: str, repository: str) -> None:
        """Take all grants of a user in a repository."""
        self._take(self._stub.RevokeAccess, pb.RevokeAccessRequest(user_name=user, repository=repository))

    def remove_object(self, repository: str, oid: str, reason: str) -> None:
        """Remove an object."""
        request = pb.RemoveObjectRequest(repository=repository, oid=oid, reason=reason)
        self._take(self._stub.RemoveObject, request)

    def purge_object(self, repository: str, oid: str) -> None:
        """Take the bytes of a removed object out of the bin."""
        self._take(self._stub.PurgeObject, pb.PurgeObjectRequest(repository=repository, oid=oid))

    def restore_object(self, repository: str, oid: str) -> None:
        """Bring a removed object back; if its bytes are gone, let it be uploaded again."""
        self._stub.RestoreObject(pb.RestoreObjectRequest(repository=repository, oid=oid), STEP_SECONDS, self._metadata)
