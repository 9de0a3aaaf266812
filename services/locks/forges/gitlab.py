"""GitLab: https://docs.gitlab.com/api/projects/."""

from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from services.locks.access.policy import Role
from services.locks.forges.kinds import (
    Account,
    CredentialRefusedError,
    ForgeAccess,
    account,
    check_answered,
    member,
)
from services.locks.forges.web import Answer

API_URL = "https://gitlab.com/api/v4"

_REPORTER, _DEVELOPER, _MAINTAINER = 20, 30, 40


class GitLab:
    """The REST API of the version v4."""

    def headers(self, credential: str) -> Mapping[str, str]:
        """Return the headers of a request to the interface."""
        return {"Authorization": f"Bearer {credential}", "Accept": "application/json"}

    def repository_path(self, name: str) -> str:
        """Return the path of a project, whose name, subgroups included, is one segment."""
        return f"/projects/{quote(name, safe='')}"

    def account_of(self, answer: Answer) -> Account | None:
        """Return the account in an answer to GET /user, which a token for repositories alone does not get."""
        if not check_answered(answer):
            raise CredentialRefusedError(lacks="the scope read_api or api")
        return account(answer, "username")

    def access_of(self, answer: Answer) -> ForgeAccess | None:
        """Return the access in an answer about a project."""
        if not check_answered(answer):
            return None
        role = _role_of(answer.body)
        if role is not None and answer.body.get("archived") is True:
            role = Role.READ
        return ForgeAccess(member(answer.body, "path_with_namespace", str), role)

    def git_url(self, api_url: str, name: str) -> str:
        """Return the URL of git, which is beside /api/v4."""
        return f"{api_url.removesuffix('/api/v4')}/{quote(name)}.git"


def _role_of(project: Mapping[str, Any]) -> Role | None:
    level = max(map(_access_level, member(project, "permissions", dict).values()), default=0)
    code = project.get("repository_access_level", "enabled")
    if level >= _MAINTAINER:
        return Role.ADMIN
    if level >= _DEVELOPER:
        return Role.WRITE
    if level >= _REPORTER:
        return Role.READ if code != "disabled" else None
    # Guests, and those who are no members, may read the code only where it is open to everybody who sees the project.
    is_open = project.get("visibility") in ("public", "internal") and code == "enabled"
    return Role.READ if is_open else None


def _access_level(access: object) -> int:
    level = access.get("access_level") if isinstance(access, dict) else None
    return level if isinstance(level, int) else 0
