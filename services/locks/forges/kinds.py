"""The interface of a forge as a look-up needs it; one module for each kind implements it."""

import base64
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from services.locks.access.policy import Role
from services.locks.forges.web import Answer, odd_answer

# Less than a URL may have, with each character encoded, and than an index of Postgres takes.
_MAX_CHARACTERS = 2_000


class CredentialRefusedError(Exception):
    """The forge does not accept the credential; `lacks` is the right that it lacks, or empty."""

    def __init__(self, lacks: str = "") -> None:
        super().__init__(lacks)
        self.lacks = lacks


@dataclass(frozen=True, slots=True)
class Account:
    """An account at a forge: `subject` never changes, `login` may."""

    subject: str
    login: str


@dataclass(frozen=True, slots=True)
class ForgeAccess:
    """A repository as a forge shows it to the owner of a credential: its present name, its id, and the owner's role.

    `account` is that of a credential that belongs to a program, and has none of its own.
    """

    name: str
    role: Role | None
    account: Account | None = None


class Kind(Protocol):
    """The requests and answers of one kind of forge."""

    def headers(self, credential: str) -> Mapping[str, str]:
        """Return the headers of a request to the interface."""

    def repository_path(self, name: str) -> str:
        """Return the path of a repository, below the URL of the interface."""

    def account_of(self, answer: Answer) -> Account | None:
        """Return the account in an answer to GET /user; None if the credential may belong to a program.

        Raises `CredentialRefusedError` and `ForgeUnavailableError`.
        """

    def access_of(self, answer: Answer) -> ForgeAccess | None:
        """Return the access in an answer about a repository; None if its owner does not see the repository.

        Raises `CredentialRefusedError` and `ForgeUnavailableError`.
        """

    def git_url(self, api_url: str, name: str) -> str:
        """Return the URL at which git reaches a repository."""


def member(body: Mapping[str, Any], name: str, kind: type[Any]) -> Any:  # noqa: ANN401 - the caller names the type
    """Return a member of an answer.

    Raises `ForgeUnavailableError` if it is missing, has another type, is a text with characters that no name has, or
    is longer than any name or id.
    """
    value = body.get(name)
    if not isinstance(value, kind) or isinstance(value, bool) is not (kind is bool):
        raise odd_answer(f"the answer of the forge lacks {name}")
    if not isinstance(value, dict) and len(str(value)) > _MAX_CHARACTERS:
        raise odd_answer(f"the answer of the forge has a {name} of more than {_MAX_CHARACTERS} characters")
    if isinstance(value, str) and not value.isprintable():
        raise odd_answer(f"the answer of the forge has a {name} that is not printable")
    return value


def account(answer: Answer, login: str) -> Account:
    """Return the account in the JSON of a user, whose login has this name there."""
    return Account(str(member(answer.body, "id", int)), member(answer.body, login, str))


def check_answered(answer: Answer) -> bool:
    """Return whether an answer tells something; False for what its owner does not see.

    Raises `CredentialRefusedError` for 401, and `ForgeUnavailableError` for an answer without a meaning here.
    """
    if answer.status == 401:
        raise CredentialRefusedError
    if answer.status in (403, 404, 410, 451):
        return False
    if answer.status != 200:
        raise odd_answer(f"the forge answers {answer.status}")
    return True


def basic(credential: str) -> Mapping[str, str]:
    """Return the headers of a request of git's; all forges take a token as the password of this user."""
    return {"Authorization": f"Basic {base64.b64encode(f'oauth2:{credential}'.encode()).decode()}"}
