"""AdminService: grants, and explanations of access decisions."""

from collections.abc import Sequence
from functools import partial

from sqlalchemy.ext.asyncio import AsyncConnection
from towpath.access.v1 import admin_service_pb2 as pb

from services.common.errors import InvalidArgument, NotFound, Reason
from services.locks.access.grants import FoundRepository, delete_grants, find_access, list_grants, put_grant
from services.locks.access.policy import Outcome, Role, decide
from services.locks.api.admin.base import Handlers, administrator_only
from services.locks.api.messages import ROLE_NUMBERS, grant_message, permission_of, repository_message
from services.locks.models import Grant, Repository, User
from services.locks.repositories import find_repository, repository_not_found
from services.locks.validation import check_ref_patterns, check_repository_name

_ROLES = {number: role for role, number in ROLE_NUMBERS.items()}


class GrantHandlers(Handlers):
    """Gives, revokes and lists grants, and explains access decisions."""

    @administrator_only
    async def GrantAccess(self, request: pb.GrantAccessRequest, _administrator: User) -> pb.GrantAccessResponse:
        """Give a user a role in a repository."""
        role = _role(request.role)
        patterns = check_ref_patterns("ref_patterns", request.ref_patterns)
        if patterns and role is Role.READ:
            raise InvalidArgument(
                Reason.INVALID_FIELD, "ref_patterns: expected none with ROLE_READ: a ref never limits it"
            )
        if request.ignores_locks and role is Role.READ:
            raise InvalidArgument(
                Reason.INVALID_FIELD, "ignores_locks: expected false with ROLE_READ, which allows no push"
            )

        async def work(connection: AsyncConnection) -> tuple[Grant, Grant | None]:
            user, repository = await self._parties(connection, request)
            return await put_grant(
                connection,
                user_id=user.id,
                repository_id=repository.id,
                role=role,
                ref_patterns=patterns,
                ignores_locks=request.ignores_locks,
            )

        grant, replaced = await self.database.run(work)
        message = partial(grant_message, user_name=request.user_name, repository=request.repository)
        return pb.GrantAccessResponse(grant=message(grant), replaced=None if replaced is None else message(replaced))

    @administrator_only
    async def RevokeAccess(self, request: pb.RevokeAccessRequest, _administrator: User) -> pb.RevokeAccessResponse:
        """Delete all of a user's grants in a repository."""

        async def work(connection: AsyncConnection) -> Sequence[Grant]:
            user, repository = await self._parties(connection, request)
            grants = await delete_grants(connection, user_id=user.id, repository_id=repository.id)
            if not grants:
                raise NotFound(Reason.GRANT_NOT_FOUND, f"{user.name} has no grant in {repository.name}")
            return grants

        grants = await self.database.run(work)
        return pb.RevokeAccessResponse(
            grants=(
                grant_message(grant, user_name=request.user_name, repository=request.repository) for grant in grants
            )
        )

    @administrator_only
    async def ListGrants(self, request: pb.ListGrantsRequest, _administrator: User) -> pb.ListGrantsResponse:
        """Return a repository's grants."""
        repository = await self.find_repository(request.repository)
        grants = await self.database.run(partial(list_grants, repository_id=repository.id))
        return pb.ListGrantsResponse(
            grants=(
                grant_message(grant, user_name=user_name, repository=repository.name) for user_name, grant in grants
            ),
            repository=repository_message(repository),
        )

    @administrator_only
    async def ExplainAccess(self, request: pb.ExplainAccessRequest, _administrator: User) -> pb.ExplainAccessResponse:
        """Decide like CheckAccess, and return the explanation and the deciding grant."""
        permission = permission_of(request.permission)
        check_repository_name("repository", request.repository)

        async def work(connection: AsyncConnection) -> FoundRepository:
            user = await self.find_user(connection, "user_name", request.user_name) if request.user_name else None
            found = await find_access(connection, repository=request.repository, user_id=user.id if user else 0)
            if found is None:
                raise repository_not_found(request.repository)
            return found

        found = await self.database.run(work)
        decision = decide(
            anonymous=not request.user_name, repository=found.access, permission=permission, ref=request.ref
        )
        response = pb.ExplainAccessResponse(
            allowed=decision.outcome is Outcome.ALLOWED, explanation=decision.explanation
        )
        if decision.grant is not None:
            record = found.records[found.access.grants.index(decision.grant)]
            response.grant.CopyFrom(grant_message(record, user_name=request.user_name, repository=request.repository))
        return response

    async def _parties(
        self, connection: AsyncConnection, request: pb.GrantAccessRequest | pb.RevokeAccessRequest
    ) -> tuple[User, Repository]:
        check_repository_name("repository", request.repository)
        user = await self.find_user(connection, "user_name", request.user_name)
        return user, await find_repository(connection, request.repository)


def _role(number: int) -> Role:
    """Return the role that a request names. Raises `InvalidArgument`."""
    role = _ROLES.get(pb.Role.ValueType(number))
    if role is None:
        raise InvalidArgument(Reason.INVALID_FIELD, "role: expected ROLE_READ, ROLE_WRITE or ROLE_ADMIN")
    return role
