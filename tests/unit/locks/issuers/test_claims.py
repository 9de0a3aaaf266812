"""Patterns of claims: which tokens match, and which patterns no grant may have."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.common.errors import InvalidArgument
from services.locks.issuers.claims import check_claims, matches

OWN = "https://ci.example.org"
GITHUB = "https://token.actions.githubusercontent.com"
GITLAB = "https://gitlab.com"


@pytest.mark.parametrize(
    ("pattern", "value", "expected"),
    [
        ("acme/film", "acme/film", True),
        ("acme/*", "acme/film", True),
        ("acme/*", "acme/", True),
        ("*", "", True),
        ("a*b*c", "abc", True),
        ("a*b*c", "a-b-b-c", True),
        ("*main", "refs/heads/main", True),
        ("a[b]?", "a[b]?", True),
        ("true", True, True),
        ("17", 17, True),
        ("artists", ["writers", "artists"], True),
        ("acme/film", "acme/film2", False),
        ("acme/film", "Acme/film", False),
        ("acme/*", "acme", False),
        ("acme/*", "evil/acme/film", False),
        ("aa*a", "aa", False),
        ("a*b*c", "acb", False),
        ("a.c", "abc", False),
        ("*", None, False),
        ("1", True, False),
        ("artists", [["artists"]], False),
        ("artists", {"artists": True}, False),
        ("artists", [], False),
    ],
)
def test_a_pattern_and_a_claim(pattern: str, value: object, *, expected: bool) -> None:
    """`*` is any characters; numbers and booleans are compared as JSON writes them.

    A claim that is missing, or of another shape, matches nothing, not even `*`.
    """
    claims = {"claim": value, "other": "x"} if value is not None else {"other": "x"}
    assert matches({"claim": pattern}, claims) is expected


def test_all_patterns_have_to_match() -> None:
    """A token needs every claim of a grant."""
    claims: dict[str, Any] = {"repository": "acme/film", "environment": "production"}
    assert matches({"repository": "acme/film", "environment": "production"}, claims)
    assert not matches({"repository": "acme/film", "environment": "staging"}, claims)
    assert not matches({"repository": "acme/film", "actor": "*"}, claims)


@given(st.lists(st.text("ab", max_size=3), min_size=1, max_size=5), st.lists(st.text("ab", max_size=3), max_size=4))
def test_a_star_is_any_characters(parts: list[str], between: list[str]) -> None:
    """A pattern matches itself with anything in place of its stars."""
    between = [*between, *[""] * len(parts)]
    text = "".join(part + filling for part, filling in zip(parts, [*between[: len(parts) - 1], ""], strict=True))
    assert matches({"claim": "*".join(parts)}, {"claim": text})


@pytest.mark.parametrize(
    ("issuer", "claims"),
    [
        (OWN, {"repository": "*film"}),
        (OWN, {"environment": "production", "aud": "x"}),
        (GITHUB, {"repository": "acme/film"}),
        (GITHUB, {"repository": "acme/*", "ref": "refs/heads/main"}),
        (GITHUB, {"repository_owner": "acme"}),
        (GITHUB, {"sub": "repo:acme/*"}),
        (GITLAB, {"project_path": "acme/film"}),
        (GITLAB, {"namespace_path": "acme"}),
    ],
)
def test_patterns_that_name_somebody(issuer: str, claims: dict[str, str]) -> None:
    """One claim says whose token it is; others may narrow that down."""
    assert check_claims(claims, issuer_url=issuer) == claims


@pytest.mark.parametrize(
    ("issuer", "claims", "message"),
    [
        (OWN, {}, "1 to 20 claims"),
        (OWN, {f"claim{n}": "x" for n in range(21)}, "1 to 20 claims"),
        (OWN, {"repository": "*"}, "not every token of the issuer has"),
        (OWN, {"repository": "***", "iss": OWN, "aud": "x"}, "not every token of the issuer has"),
        (OWN, {"repository": ""}, "1 to 255 printable characters"),
        (OWN, {"": "x"}, "1 to 255 printable characters"),
        (OWN, {"a\0": "x"}, "1 to 255 printable characters"),
        (OWN, {"repository": "x" * 256}, "1 to 255 printable characters"),
        (GITHUB, {"ref": "refs/heads/main"}, "serves everybody"),
        (GITHUB, {"repository": "acme*"}, "serves everybody"),
        (GITHUB, {"repository": "*/film"}, "serves everybody"),
        (GITHUB, {"sub": "repo:*"}, "serves everybody"),
        (GITHUB, {"job_workflow_ref": "acme/film/.github/workflows/build.yml@refs/heads/main"}, "serves everybody"),
        (GITHUB, {"repository_visibility": "private", "repository": "*"}, "serves everybody"),
        (GITLAB, {"namespace_path": "acme*"}, "serves everybody"),
    ],
)
def test_patterns_of_anybody_are_refused(issuer: str, claims: dict[str, str], message: str) -> None:
    """A grant that a stranger's token would match is no grant."""
    with pytest.raises(InvalidArgument, match=message):
        check_claims(claims, issuer_url=issuer)
