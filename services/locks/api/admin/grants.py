"""AdminService: grants, and explanations of access decisions."""

from collections.abc import Sequence
from functools import partial

from sqlalchemy.ext.asyncio import AsyncConnection
from towpath.access.v1 import admin_service_pb2 as pb

from services.common.errors import InvalidArgument, NotFound, Reason
from services.locks.access.grants import AnyGrant, FoundRepository, delete_grants, find_access, list_grants, put_grant
from services.locks.access.groups import find_group
from services.locks.access.policy import Outcome, Role, decide
from services.locks.access.users import check_origin
from services.locks.api.admin.base import Handlers, administrator_only
from services.locks.api.messages import ROLE_NUMBERS, grant_message, permission_of, repository_message
from services.locks.forges.records import forge_names
from services.locks.models import Grant, Group, Repository, User
from services.locks.repositories import find_repository, repository_not_found
from services.locks.validation import check_name, check_ref_patterns, check_repository_name

_ROLES = {number: role for role, number in ROLE_NUMBERS.items()}


class GrantHandlers(Handlers):
    """Gives, revokes and lists grants, and explains access decisions."""

    @administrator_only
    async def GrantAccess(self, request: pb.GrantAccessRequest, _administrator: User) -> pb.GrantAccessResponse:
        """Give a user or a group a role in a repository."""
        role = role_of(request.role)
        patterns = check_ref_patterns("ref_patterns", request.ref_patterns)
        if patterns and role is Role.READ:
            raise InvalidArgument(
                Reason.INVALID_FIELD, "ref_patterns: expected none with ROLE_READ: a ref never limits it"
            )
        if request.ignores_locks and role is Role.READ:
            raise InvalidArgument(
                Reason.INVALID_FIELD, "ignores_locks: expected false with ROLE_READ, which allows no push"
            )

        async def work(connection: AsyncConnection) -> tuple[AnyGrant, AnyGrant | None]:
            party, repository = await self._parties(connection, request)
            if isinstance(party, User):
                await check_origin(connection, [party], request.origin)
            elif request.origin:
                raise InvalidArgument(Reason.INVALID_FIELD, "origin: expected none with group_name")
            return await put_grant(
                connection,
                party=party,
                repository_id=repository.id,
                role=role,
                ref_patterns=patterns,
                ignores_locks=request.ignores_locks,
            )

        grant, replaced = await self.database.run(work)
        message = partial(
            grant_message,
            user_name=request.user_name,
            group_name=request.group_name,
            repository=request.repository,
        )
        return pb.GrantAccessResponse(grant=message(grant), replaced=None if replaced is None else message(replaced))

    @administrator_only
    async def RevokeAccess(self, request: pb.RevokeAccessRequest, _administrator: User) -> pb.RevokeAccessResponse:
        """Delete all grants of a user or a group in a repository."""

        async def work(connection: AsyncConnection) -> Sequence[AnyGrant]:
            party, repository = await self._parties(connection, request)
            grants = await delete_grants(connection, party=party, repository_id=repository.id)
            if not grants:
                raise NotFound(Reason.GRANT_NOT_FOUND, f"{party.name} has no grant in {repository.name}")
            return grants

        grants = await self.database.run(work)
        message = partial(
            grant_message,
            user_name=request.user_name,
            group_name=request.group_name,
            repository=request.repository,
        )
        return pb.RevokeAccessResponse(grants=map(message, grants))

    @administrator_only
    async def ListGrants(self, request: pb.ListGrantsRequest, _administrator: User) -> pb.ListGrantsResponse:
        """Return a repository's grants."""
        repository = await self.find_repository(request.repository)
        grants = await self.database.run(partial(list_grants, repository_id=repository.id))
        names = await self.database.run(forge_names)
        return pb.ListGrantsResponse(
            grants=(
                grant_message(grant, **{_party_field(grant): name}, repository=repository.name)
                for name, grant in grants
            ),
            repository=repository_message(repository, names),
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
            message = grant_message(
                record,
                user_name=request.user_name,
                group_name=record.source_name if record.source == "group" else "",
                repository=request.repository,
            )
            response.grant.CopyFrom(message)
        return response

    async def _parties(
        self, connection: AsyncConnection, request: pb.GrantAccessRequest | pb.RevokeAccessRequest
    ) -> tuple[User | Group, Repository]:
        check_repository_name("repository", request.repository)
        if request.user_name and request.group_name:
            raise InvalidArgument(Reason.INVALID_FIELD, "group_name: expected none with user_name")
        if not request.user_name and not request.group_name:
            raise InvalidArgument(Reason.INVALID_FIELD, "user_name or group_name: expected a user or a group, got none")
        party: User | Group
        if request.group_name:
            check_name("group_name", request.group_name)
            party = await find_group(connection, request.group_name, hold=True)
        else:
            party = await self.find_user(connection, "user_name", request.user_name)
        return party, await find_repository(connection, request.repository)


def _party_field(grant: AnyGrant) -> str:
    return "user_name" if isinstance(grant, Grant) else "group_name"


def role_of(number: int) -> Role:
    """Return the role that a request names. Raises `InvalidArgument`."""
    role = _ROLES.get(pb.Role.ValueType(number))
    if role is None:
        raise InvalidArgument(Reason.INVALID_FIELD, "role: expected ROLE_READ, ROLE_WRITE or ROLE_ADMIN")
    return role
