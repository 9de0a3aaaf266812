"""Printed fields of issuers, their groups and grants. They are the fields of the JSON output, and do not change."""

from typing import Any

from towpath.access.v1 import admin_service_pb2 as admin

from services.cli.admin.records import ROLES, moment

_ROLE_NAMES = {value: name for name, value in ROLES.items()}


def issuer_record(issuer: admin.Issuer) -> dict[str, Any]:
    """Return the printed fields of an issuer; an empty one is absent."""
    optional = {
        "client_id": issuer.client_id,
        "user_claim": issuer.user_claim,
        "groups_claim": issuer.groups_claim,
        "rules": rules_of(issuer),
    }
    return {
        "id": issuer.id,
        "name": issuer.name,
        "issuer": issuer.url,
        "audiences": list(issuer.audiences),
        "created_at": moment(issuer.created_at),
        **{name: value for name, value in optional.items() if value},
    }


def rules_of(issuer: admin.Issuer) -> list[dict[str, Any]]:
    """Return the printed fields of an issuer's groups, and then of its grants."""
    claim = issuer.groups_claim
    groups = [{"kind": "group", "claims": {claim: rule.value}, "group": rule.group} for rule in issuer.groups]
    return [*groups, *map(grant_rule, issuer.grants)]


def grant_rule(grant: admin.IssuerGrant) -> dict[str, Any]:
    """Return the printed fields of a grant; without `ref_claim`, its tokens may write every ref."""
    record: dict[str, Any] = {
        "kind": "grant",
        "id": grant.id,
        "repository": grant.repository,
        "role": _ROLE_NAMES[grant.role],
        "claims": dict(sorted(grant.claims.items())),
    }
    if grant.ref_claim:
        record["ref_claim"] = grant.ref_claim
    return {**record, "created_at": moment(grant.created_at)}
