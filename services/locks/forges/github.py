"""GitHub and GitHub Enterprise Server: https://docs.github.com/en/rest."""

from collections.abc import Mapping
from urllib.parse import quote, urlsplit

from services.locks.access.policy import Role
from services.locks.forges.kinds import Account, ForgeAccess, account, check_answered, member
from services.locks.forges.web import Answer

API_URL = "https://api.github.com"


class GitHub:
    """The REST API of the version 2022-11-28."""

    def headers(self, credential: str) -> Mapping[str, str]:
        """Return the headers of a request to the interface."""
        return {
            "Authorization": f"Bearer {credential}",
            "Accept": "application/vnd.github+json",
            "X-GitHub-Api-Version": "2022-11-28",
        }

    def repository_path(self, name: str) -> str:
        """Return the path of a repository, below the URL of the interface."""
        return f"/repos/{quote(name)}"

    def account_of(self, answer: Answer) -> Account | None:
        """Return the account in an answer to GET /user; None for a 403, the answer to the token of an app."""
        return account(answer, "login") if check_answered(answer) else None

    def access_of(self, answer: Answer) -> ForgeAccess | None:
        """Return the access in an answer about a repository.

        The answer to the token of an app's installation has no `permissions`; it may read what it sees.
        """
        if not check_answered(answer):
            return None
        body = answer.body
        name = member(body, "full_name", str)
        app = Account(f"app:{member(body, 'id', int)}", f"{name.rpartition('/')[2]}-app")
        if "permissions" not in body:
            return ForgeAccess(name, Role.READ, app)
        ended = body.get("archived") is True or body.get("disabled") is True
        return ForgeAccess(name, role_of(member(body, "permissions", dict), read_only=ended), app)

    def git_url(self, api_url: str, name: str) -> str:
        """Return the URL of git: of `https://api.HOST` and `https://HOST/api/v3` alike it is at `https://HOST`."""
        parts = urlsplit(api_url.removesuffix("/api/v3"))
        return f"{parts.scheme}://{parts.netloc.removeprefix('api.')}{parts.path}/{quote(name)}.git"


def role_of(permissions: Mapping[str, object], *, read_only: bool) -> Role | None:
    """Return the role of `permissions` such as {"pull": true, "push": false, "admin": false}, as Gitea has them too."""
    ranked = (("admin", Role.ADMIN), ("push", Role.WRITE), ("pull", Role.READ))
    role = next((role for name, role in ranked if permissions.get(name) is True), None)
    return Role.READ if role is not None and read_only else role
