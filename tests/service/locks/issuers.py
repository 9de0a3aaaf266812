"""Calls about issuers and their tokens that several files of tests make."""

from collections.abc import Mapping, Sequence
from typing import Any

from towpath.access.v1 import access_service_pb2 as access
from towpath.access.v1 import admin_service_pb2 as admin

from tests.support.issuer import AUDIENCE, Issuer
from tests.support.keycloak import Keycloak
from tests.support.locks import RunningLocks
from tests.support.oidc_provider import OidcProvider
from tests.support.postgres import TestPostgres


async def add_issuer(
    service: RunningLocks,
    issuer: Issuer,
    name: str,
    *,
    user_claim: str = "",
    groups_claim: str = "",
    client_id: str = "",
    client_secret: str = "",
) -> admin.Issuer:
    """Add the issuer to a lock service."""
    request = admin.CreateIssuerRequest(
        name=name,
        url=issuer.url,
        audiences=[AUDIENCE],
        user_claim=user_claim,
        groups_claim=groups_claim,
        client_id=client_id,
        client_secret=client_secret,
    )
    return (await service.admin_peer.call(service.admin.CreateIssuer, request)).issuer


async def add_provider(service: RunningLocks, name: str, provider: OidcProvider | Keycloak) -> str:
    """Add a provider at which people sign in to a lock service, and return the name of the issuer."""
    request = admin.CreateIssuerRequest(
        name=name,
        url=provider.url,
        client_id=provider.client_id,
        user_claim="preferred_username",
        groups_claim="groups",
    )
    return (await service.admin_peer.call(service.admin.CreateIssuer, request)).issuer.name


async def allow(
    service: RunningLocks,
    name: str,
    repository: str,
    claims: Mapping[str, str],
    *,
    role: admin.Role.ValueType = admin.ROLE_WRITE,
    ref_claim: str = "ref",
) -> admin.IssuerGrant:
    """Give a role to tokens of an issuer."""
    request = admin.CreateIssuerGrantRequest(
        issuer=name, repository=repository, role=role, claims=claims, ref_claim=ref_claim
    )
    return (await service.admin_peer.call(service.admin.CreateIssuerGrant, request)).grant


async def authenticate(service: RunningLocks, token: str) -> access.AuthenticateResponse:
    """Return whose token it is."""
    return await service.peer.call(service.access.Authenticate, access.AuthenticateRequest(token=token))


async def exchange(service: RunningLocks, token: str) -> access.ExchangeTokenResponse:
    """Return the token that is given for a JSON Web Token."""
    return await service.peer.call(service.access.ExchangeToken, access.ExchangeTokenRequest(token=token))


async def token_events(service: RunningLocks, token: str) -> Sequence[Any]:
    """Return what the audit log has about a token, which is given as USER/NAME."""
    events = "SELECT type, actor, source, before FROM audit_events WHERE subject = :subject ORDER BY id"
    return await service.execute(events, subject=f"token {token}")


async def check(
    service: RunningLocks,
    known: access.AuthenticateResponse,
    repository: str,
    permission: access.Permission.ValueType = access.PERMISSION_WRITE,
    *,
    ref: str = "",
) -> int:
    """Check an access by a token and return the repository's id."""
    request = access.CheckAccessRequest(
        user_id=known.user_id, token_id=known.token_id, repository=repository, permission=permission, ref=ref
    )
    return (await service.peer.call(service.access.CheckAccess, request)).repository_id


async def add_group(postgres: TestPostgres, service: RunningLocks, group: str, repository: str, role: str) -> None:
    """Add a group with a grant, past the service."""
    # The names are the test's own.
    added = f"INSERT INTO locks.groups (name) VALUES ('{group}')"  # noqa: S608 - see above
    await postgres.execute(added, database=service.database)
    parties = f"groups.name = '{group}' AND repositories.name = '{repository}'"
    chosen = f"SELECT groups.id, repositories.id, '{role}' FROM locks.groups, locks.repositories WHERE {parties}"  # noqa: S608 - see above
    granted = f"INSERT INTO locks.group_grants (group_id, repository_id, role) {chosen}"
    await postgres.execute(granted, database=service.database)
