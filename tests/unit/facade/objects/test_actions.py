"""The actions that a batch hands out."""

import json
from datetime import UTC, datetime

import jwt
import pytest
from pydantic import SecretStr

from services.common.errors import InvalidArgument
from services.facade.auth.action_tokens import ActionGrant, ActionTokens, Operation
from services.facade.objects.actions import ActionFactory
from services.facade.web.forwarded_headers import ClientRequest, origin

NOW = 1_795_000_000
OID = "a" * 64


@pytest.mark.parametrize("operation", Operation)
def test_an_action_states_the_expiry_of_its_token(operation: Operation) -> None:
    """An action and its token agree on the expiry, and verify outlives an upload that uses up its time (trap-24)."""
    maker = ActionFactory(ActionTokens(SecretStr("k" * 32)), origin="https://h/p", seconds=600, now=NOW)
    action = json.loads(maker.for_operation(ActionGrant(operation, "demo/assets", 7, "", 0, "alice")).build(OID, 12))
    expiry = jwt.decode(
        action["header"]["X-Towpath-Token"],
        options={"verify_signature": False, "verify_exp": False},
    )["exp"]
    assert action["href"] == f"https://h/p/demo/assets/objects/{OID}"
    assert action["expires_in"] == (600 + 86_400 if operation is Operation.VERIFY else 600)
    assert expiry == NOW + action["expires_in"]
    assert datetime.strptime(action["expires_at"], "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=UTC).timestamp() == expiry


@pytest.mark.parametrize("host", ["localhost", "example.org:8080", "127.0.0.1:1", "[::1]:8080", "a_b.example"])
def test_hrefs_begin_with_the_host_of_the_request(host: str) -> None:
    """Unless a public address is set, which wins, also over a bad host (trap-33)."""
    assert origin(None, ClientRequest("", "http", [host])) == f"http://{host}"
    assert origin(None, ClientRequest("", "https", [host], "/lfs")) == f"https://{host}/lfs"
    assert origin("https://lfs.example.org/x", ClientRequest("", "http", [host], "/y")) == "https://lfs.example.org/x"
    assert origin("https://lfs.example.org", ClientRequest("", "http", [])) == "https://lfs.example.org"


@pytest.mark.parametrize("hosts", [[], [""], ["a b"], ["a/b"], ["a@b"], ["a:b"], ["a", "a"], ["[::1"], ["h:123456"]])
def test_a_malformed_host_is_refused(hosts: list[str]) -> None:
    """It would make an address that leads elsewhere."""
    with pytest.raises(InvalidArgument, match="host"):
        origin(None, ClientRequest("", "http", hosts))
