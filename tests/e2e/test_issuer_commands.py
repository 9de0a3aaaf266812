"""The commands for issuers, as an operator runs them against a running stack."""

from tests.e2e.test_admin_commands import failure, text, timeless
from tests.support.stack import Stack

# Nobody answers there.
URL = "http://127.0.0.1:9/github"
SSO = "http://127.0.0.1:9/sso"
GITHUB = "https://token.actions.githubusercontent.com"
"""Known to serve everybody; whether it answers does not matter."""
AUDIENCE = "https://lfs.example.org"


def test_issuers(stack: Stack) -> None:
    """`issuer add|list|remove`."""
    added = stack.towpath("issuer", "add", "github", "--issuer", URL, "--audience", AUDIENCE)
    assert timeless(added) == {"name": "github", "issuer": URL, "audiences": [AUDIENCE]}
    people = stack.towpath(
        *("issuer", "add", "sso", "--issuer", SSO),
        *("--client-id", "towpath", "--groups-claim", "groups"),
    )
    assert timeless(people) == {
        "name": "sso",
        "issuer": SSO,
        "audiences": ["towpath"],
        "client_id": "towpath",
        "user_claim": "preferred_username",
        "groups_claim": "groups",
    }
    assert stack.towpath("issuer", "list") == [added, people]
    title, *rows = text(stack, "issuer", "list")
    assert title.split() == ["NAME", "ISSUER", "AUDIENCES", "CLIENT", "ID", "USER", "CLAIM", "GROUPS", "CLAIM"]
    assert len(rows) == 2
    assert "already" in failure(stack, "issuer", "add", "again", "--issuer", URL, "--audience", "x")
    assert "expected https" in failure(stack, "issuer", "add", "x", "--issuer", "http://sso.example.org")
    assert "audiences: expected" in failure(stack, "issuer", "add", "x", "--issuer", "https://x.example.org")
    for issuer in (added, people):
        assert stack.towpath("issuer", "remove", issuer["name"]) == issuer
    assert "there is no issuer github" in failure(stack, "issuer", "remove", "github")


def test_grants_of_issuers(stack: Stack) -> None:
    """`issuer allow|disallow|rules`."""
    stack.towpath("issuer", "add", "github", "--issuer", GITHUB, "--audience", AUDIENCE)
    allow = ("issuer", "allow", "github", "demo/assets", "--role")
    grant = stack.towpath(*allow, "write", "--claim", "repository=acme/film", "--claim", "environment=x=y")
    assert timeless(grant) == {
        "kind": "grant",
        "repository": "demo/assets",
        "role": "write",
        "claims": {"environment": "x=y", "repository": "acme/film"},
        "ref_claim": "ref",
    }
    other = stack.towpath(*allow, "read", "--claim", "repository=acme/*", "--any-ref")
    assert "ref_claim" not in other
    assert stack.towpath("issuer", "rules", "github") == [grant, other]
    assert stack.towpath("issuer", "list")[0]["rules"] == [grant, other]
    assert "serves everybody" in failure(stack, *allow, "read", "--claim", "ref=refs/heads/main")
    assert "not every token" in failure(stack, *allow, "read", "--claim", "repository=*")
    assert "nowhere" in failure(stack, *allow[:3], "nowhere", "--role", "read", "--claim", "repository=acme/film")
    disallow = ("issuer", "disallow", "github", "demo/assets")
    assert stack.towpath(*disallow, "--id", str(other["id"])) == [other]
    assert stack.towpath(*disallow) == [grant]
    assert "no such grant" in failure(stack, *disallow)
    stack.towpath("issuer", "remove", "github")
    assert "there is no issuer github" in failure(stack, "issuer", "rules", "github")


def test_groups_of_issuers(stack: Stack) -> None:
    """`issuer map|unmap` name what is missing."""
    stack.towpath("issuer", "add", "sso", "--issuer", SSO, "--client-id", "towpath")
    assert "there is no issuer none" in failure(stack, "issuer", "map", "none", "value", "group")
    assert "has no claim of groups" in failure(stack, "issuer", "map", "sso", "value", "group")
    assert "there is no group none" in failure(stack, "issuer", "unmap", "sso", "value", "none")
    stack.towpath("issuer", "remove", "sso")
