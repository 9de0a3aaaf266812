"""The tokens of actions, opened and forged, as an attacker would, and once as only the facade itself can."""

import base64
import json
from collections.abc import Mapping
from typing import Any

import jwt

from tests.protocol.client import Action
from tests.support.stack import Stack


def token_of(action: Action) -> str:
    """Return the token of an action."""
    return str(action["header"]["X-Towpath-Token"])


def claims_of(action: Action) -> dict[str, Any]:
    """Return what the token of an action says."""
    claims: dict[str, Any] = jwt.decode(token_of(action), options={"verify_signature": False})
    return claims


def with_token(action: Action, token: str) -> dict[str, Any]:
    """Return the action with another token."""
    return {**action, "header": {"X-Towpath-Token": token}}


def signed_anew(stack: Stack, action: Action, claims: Mapping[str, Any]) -> dict[str, Any]:
    """Return the action with a token that says `claims`, signed with the stack's own key."""
    key = (stack.data / "signing-key").read_text().strip()
    return with_token(action, jwt.encode(dict(claims), key, algorithm="HS256"))


def edited(action: Action, **claims: object) -> dict[str, Any]:
    """Return the action with other claims under the old signature."""
    header, _, signature = token_of(action).split(".")
    payload = json.dumps({**claims_of(action), **claims}).encode()
    return with_token(action, f"{header}.{base64.urlsafe_b64encode(payload).rstrip(b'=').decode()}.{signature}")


def unsigned(action: Action) -> dict[str, Any]:
    """Return the action with a token of the algorithm `none`."""
    return with_token(action, jwt.encode(claims_of(action), "", algorithm="none"))
