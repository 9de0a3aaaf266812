"""AdminService: issuers of JSON Web Tokens, their groups and their grants."""

from collections.abc import Iterator
from functools import partial

from towpath.access.v1 import admin_service_pb2 as pb

from services.locks.api.admin.base import Handlers, administrator_only
from services.locks.api.admin.grants import role_of
from services.locks.api.issuer_messages import issuer_grant_message, issuer_message, new_issuer_of
from services.locks.issuers import table
from services.locks.issuers.discovery import Endpoints, IssuerUnavailableError
from services.locks.models import User
from services.locks.validation import check_name, check_repository_name


def _sign_in_problems(endpoints: Endpoints) -> Iterator[str]:
    for name, url, how in (
        ("token_endpoint", endpoints.token, "there"),
        ("authorization_endpoint", endpoints.authorization, "with a browser"),
        ("device_authorization_endpoint", endpoints.device, "with `towpath login`"),
    ):
        if not url:
            yield f"it names no {name} that may be used: nobody can sign in {how}"


class IssuerHandlers(Handlers):
    """Adds, lists and removes issuers, and changes their groups and grants."""

    @administrator_only
    async def CreateIssuer(self, request: pb.CreateIssuerRequest, _administrator: User) -> pb.CreateIssuerResponse:
        """Add an issuer; if it is asked for, tell what the issuer answers now."""
        issuer = await self.database.run(partial(table.create_issuer, new=new_issuer_of(request)))
        response = pb.CreateIssuerResponse(issuer=issuer_message(table.IssuerWithRules(issuer)))
        if not request.check:
            return response
        try:
            found = await self.discovery.read(issuer.url)
        except IssuerUnavailableError as error:
            response.problems.append(f"its keys cannot be read, and its tokens are refused until they can: {error}")
        else:
            response.keys = len(found.keys)
            if issuer.client_id:
                response.problems.extend(_sign_in_problems(found.endpoints))
        return response

    @administrator_only
    async def ListIssuers(self, _request: pb.ListIssuersRequest, _administrator: User) -> pb.ListIssuersResponse:
        """Return all issuers with their groups and grants."""
        return pb.ListIssuersResponse(issuers=map(issuer_message, await self.database.run(table.list_issuers)))

    @administrator_only
    async def DeleteIssuer(self, request: pb.DeleteIssuerRequest, _administrator: User) -> pb.DeleteIssuerResponse:
        """Remove an issuer with its tokens."""
        check_name("name", request.name)
        deleted = await self.database.run(partial(table.delete_issuer, name=request.name))
        return pb.DeleteIssuerResponse(issuer=issuer_message(deleted))

    @administrator_only
    async def MapIssuerGroup(
        self, request: pb.MapIssuerGroupRequest, _administrator: User
    ) -> pb.MapIssuerGroupResponse:
        """Let a value of the claim of groups mean a group."""
        await self.database.run(
            partial(table.map_group, issuer=request.issuer, value=request.value, group=request.group)
        )
        return pb.MapIssuerGroupResponse()

    @administrator_only
    async def UnmapIssuerGroup(
        self, request: pb.UnmapIssuerGroupRequest, _administrator: User
    ) -> pb.UnmapIssuerGroupResponse:
        """Let a value mean a group no more."""
        await self.database.run(
            partial(table.unmap_group, issuer=request.issuer, value=request.value, group=request.group)
        )
        return pb.UnmapIssuerGroupResponse()

    @administrator_only
    async def CreateIssuerGrant(
        self, request: pb.CreateIssuerGrantRequest, _administrator: User
    ) -> pb.CreateIssuerGrantResponse:
        """Give a role to every token whose claims match."""
        check_repository_name("repository", request.repository)
        granted = await self.database.run(
            partial(
                table.add_grant,
                issuer=request.issuer,
                repository=request.repository,
                role=role_of(request.role),
                claims=dict(request.claims),
                ref_claim=request.ref_claim,
            )
        )
        return pb.CreateIssuerGrantResponse(grant=issuer_grant_message(granted))

    @administrator_only
    async def DeleteIssuerGrants(
        self, request: pb.DeleteIssuerGrantsRequest, _administrator: User
    ) -> pb.DeleteIssuerGrantsResponse:
        """Take grants of an issuer in a repository."""
        check_repository_name("repository", request.repository)
        deleted = await self.database.run(
            partial(table.delete_grants, issuer=request.issuer, repository=request.repository, grant_id=request.id)
        )
        return pb.DeleteIssuerGrantsResponse(grants=map(issuer_grant_message, deleted))
