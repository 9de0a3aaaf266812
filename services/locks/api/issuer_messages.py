"""Conversions of issuers and their grants to protobuf messages, and of the request for a new issuer."""

from towpath.access.v1 import admin_service_pb2 as pb

from services.locks.access.policy import Role
from services.locks.api.messages import ROLE_NUMBERS, timestamp
from services.locks.issuers.table import GrantInRepository, IssuerWithRules
from services.locks.issuers.validation import NewIssuer, check_issuer


def new_issuer_of(request: pb.CreateIssuerRequest) -> NewIssuer:
    """Return the issuer that a request describes. Raises `InvalidArgument`."""
    return check_issuer(
        NewIssuer(
            name=request.name,
            url=request.url,
            audiences=request.audiences,
            client_id=request.client_id,
            user_claim=request.user_claim,
            groups_claim=request.groups_claim,
            client_secret=request.client_secret,
        )
    )


def issuer_message(found: IssuerWithRules) -> pb.Issuer:
    """Return the message of an issuer with its groups and grants."""
    issuer = found.issuer
    return pb.Issuer(
        id=issuer.id,
        name=issuer.name,
        url=issuer.url,
        audiences=issuer.audiences,
        client_id=issuer.client_id,
        user_claim=issuer.user_claim,
        groups_claim=issuer.groups_claim,
        created_at=timestamp(issuer.created_at),
        groups=(pb.IssuerGroup(value=value, group=group) for value, group in found.groups),
        grants=map(issuer_grant_message, found.grants),
    )


def issuer_grant_message(granted: GrantInRepository) -> pb.IssuerGrant:
    """Return the message of a grant of an issuer."""
    grant = granted.grant
    return pb.IssuerGrant(
        id=grant.id,
        repository=granted.repository,
        role=ROLE_NUMBERS[Role(grant.role)],
        claims=grant.claims,
        ref_claim=grant.ref_claim,
        created_at=timestamp(grant.created_at),
    )
