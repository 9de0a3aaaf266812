"""Tokens of actions that no batch has handed out."""

from services.facade.auth.action_tokens import ActionGrant, ActionTokens


def issue(tokens: ActionTokens, grant: ActionGrant, expires_at: int) -> str:
    """Return a token that is good for this until `expires_at` (Unix time)."""
    return tokens.issuer(grant, expires_at).issue(grant.oid, grant.size, grant.place)
