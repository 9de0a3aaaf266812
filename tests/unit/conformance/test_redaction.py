"""Texts of requests and answers in reports, without any credential."""

import json

import pytest

from services.conformance.client import Credentials
from services.conformance.redaction import Redactor

SECRET = "s3cret-token"


@pytest.fixture
def redactor() -> Redactor:
    """A redactor of one user's credentials."""
    authorization = Credentials("alice", SECRET).authorization
    return Redactor([SECRET, authorization.removeprefix("Basic ")])


def test_secrets_are_hidden_wherever_they_stand(redactor: Redactor) -> None:
    """A server may send a password back in a message, in base64 or in a path."""
    encoded = Credentials("alice", SECRET).authorization.removeprefix("Basic ")
    for text in (SECRET, f"token {SECRET}!", encoded, f"/a/{SECRET}/b"):
        assert redactor.holds_secret(text)
        for shown in (redactor.text(text), redactor.body(text.encode()), redactor.url(f"https://h{text}")):
            assert SECRET not in shown
            assert encoded not in shown


def test_action_headers_and_queries_are_hidden(redactor: Redactor) -> None:
    """They are credentials of the action, which whoever reads the report could use."""
    action = {"href": "https://u:p@store/x?signature=abc", "header": {"X-Token": "def"}, "expires_in": 60}
    shown = redactor.body(json.dumps({"objects": [{"oid": "0", "actions": {"upload": action}}]}).encode())
    assert json.loads(shown)["objects"][0]["actions"]["upload"] == {
        "href": "https://store/x?***",
        "header": {"X-Token": "***"},
        "expires_in": 60,
    }


def test_what_is_shown_is_one_line_of_limited_length(redactor: Redactor) -> None:
    """A report has hundreds of lines, and a server may answer with a page of HTML, or with bytes."""
    shown = redactor.body(b"<html>\n<p>" + b"x" * 10_000)
    assert shown.startswith("<html> <p>xxx")
    assert len(shown) < 500
    assert redactor.body(b"\x00\xff" * 300) == "(600 bytes)"
    assert redactor.body(b"") == ""


@pytest.mark.parametrize("url", ["http://[", "/relative?x=1", "", "nonsense"])
def test_what_is_no_url_is_no_error(redactor: Redactor, url: str) -> None:
    """An href may be anything."""
    assert isinstance(redactor.url(url), str)
    assert redactor.body(json.dumps({"href": url}).encode())
