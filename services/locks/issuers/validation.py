"""Validation of the fields of an issuer."""

from collections.abc import Sequence
from typing import NamedTuple

from services.common.errors import InvalidArgument, Reason
from services.locks.issuers.discovery import check_url
from services.locks.validation import check_new_name

_MAX_AUDIENCES = 20
_MAX_CHARACTERS = 255


class NewIssuer(NamedTuple):
    """An issuer that is to be added; the fields are those of `models.Issuer`."""

    name: str
    url: str
    audiences: Sequence[str]
    client_id: str
    user_claim: str
    groups_claim: str
    client_secret: str = ""


def check_issuer(new: NewIssuer) -> NewIssuer:
    """Return a new issuer with its distinct audiences. Raises `InvalidArgument`.

    The client by which people sign in is an audience too, because it is that of their ID tokens.
    """
    check_new_name("name", new.name)
    try:
        check_url(new.url)
    except ValueError as error:
        raise InvalidArgument(Reason.INVALID_FIELD, f"url: {error}") from error
    audiences = list(dict.fromkeys(filter(None, (*new.audiences, new.client_id))))
    if not 1 <= len(audiences) <= _MAX_AUDIENCES:
        raise InvalidArgument(Reason.INVALID_FIELD, f"audiences: expected 1 to {_MAX_AUDIENCES}")
    for audience in audiences:
        _check_text("audiences", audience)
    if new.client_id and not new.user_claim:
        raise InvalidArgument(
            Reason.INVALID_FIELD, "user_claim: expected one with a client_id, as people sign in by it"
        )
    if new.client_secret:
        _check_text("client_secret", new.client_secret)
        if not new.client_id:
            raise InvalidArgument(Reason.INVALID_FIELD, "client_id: expected one with a client_secret")
    for field in ("user_claim", "groups_claim"):
        check_claim_name(field, getattr(new, field))
    if new.groups_claim and not new.user_claim:
        raise InvalidArgument(
            Reason.INVALID_FIELD, "user_claim: expected one with a groups_claim, as users have groups"
        )
    return new._replace(audiences=audiences)


def check_claim_name(field: str, name: str) -> str:
    """Return the name of a claim, which may be empty. Raises `InvalidArgument`."""
    if name:
        _check_text(field, name)
    return name


def check_value(value: str) -> str:
    """Return the value of a claim of groups. Raises `InvalidArgument`."""
    _check_text("value", value)
    return value


def _check_text(field: str, text: str) -> None:
    if not 1 <= len(text) <= _MAX_CHARACTERS or not text.isprintable():
        raise InvalidArgument(Reason.INVALID_FIELD, f"{field}: expected 1 to {_MAX_CHARACTERS} printable characters")
