"""Gitea and Forgejo: their /api/swagger describes the version that runs."""

from collections.abc import Mapping
from urllib.parse import quote

from services.locks.forges.github import role_of
from services.locks.forges.kinds import (
    Account,
    CredentialRefusedError,
    ForgeAccess,
    account,
    check_answered,
    member,
)
from services.locks.forges.web import Answer


class Gitea:
    """The interface of the version v1, which both have in common."""

    def headers(self, credential: str) -> Mapping[str, str]:
        """Return the headers of a request to the interface."""
        return {"Authorization": f"Bearer {credential}", "Accept": "application/json"}

    def repository_path(self, name: str) -> str:
        """Return the path of a repository, below the URL of the interface."""
        return f"/repos/{quote(name)}"

    def account_of(self, answer: Answer) -> Account | None:
        """Return the account in an answer to GET /user, which a token without the scope `read:user` does not get."""
        if not check_answered(answer):
            raise CredentialRefusedError(lacks="the scope read:user")
        return account(answer, "login")

    def access_of(self, answer: Answer) -> ForgeAccess | None:
        """Return the access in an answer about a repository."""
        if not check_answered(answer):
            return None
        read_only = answer.body.get("archived") is True
        role = role_of(member(answer.body, "permissions", dict), read_only=read_only)
        return ForgeAccess(member(answer.body, "full_name", str), role)

    def git_url(self, api_url: str, name: str) -> str:
        """Return the URL of git, which is beside /api/v1."""
        return f"{api_url.removesuffix('/api/v1')}/{quote(name)}.git"
