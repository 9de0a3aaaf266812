"""Tokens of actions that no batch has handed out."""

from services.facade.auth.action_tokens import ActionGrant, ActionTokens


def issue(tokens: ActionTokens, permit: ActionGrant, expires_at: int) -> str:
    """Return a token that is good for this until `expires_at` (Unix time)."""
    return tokens.issuer(permit, expires_at).issue(permit.oid, permit.size, permit.place)
