"""The user who pushes and the repository, by what git servers tell their hooks (docs/push-hooks.md)."""

from collections.abc import Mapping
from typing import NamedTuple

from services.cli.errors import CommandError


class Pusher(NamedTuple):
    """The name that the git server has for the user who pushes, empty if nothing tells it, and the id there or ""."""

    name: str
    account_id: str = ""


def find_pusher(environment: Mapping[str, str], *, option: str | None, setting: str | None) -> Pusher:
    """Return who pushes.

    The option of the hook's command stands first, because only an operator can have written it. The variables of the
    forges stand before the setting TOWPATH_PUSHER. The account that the hook runs as says nothing: many share it.
    """
    if option:
        return Pusher(option)
    if _has_deploy_key(environment):
        return Pusher(setting or "")
    told = environment.get
    kind, _, gitlab_id = told("GL_ID", "").partition("-")
    forges = [
        # Gitea and Forgejo.
        Pusher(told("GITEA_PUSHER_NAME", ""), told("GITEA_PUSHER_ID", "")),
        Pusher(told("GL_USERNAME", ""), gitlab_id if kind == "user" else ""),
    ]
    # Of gitolite, of the operator, and of a web server.
    others = [Pusher(name or "") for name in (told("GL_USER"), setting, told("REMOTE_USER"))]
    return next((each for each in (*forges, *others) if each.name), Pusher(""))


def _has_deploy_key(environment: Mapping[str, str]) -> bool:
    """Return whether a deploy key pushes: Gitea then names the owner of the repository, who may know nothing of it."""
    return environment.get("GITEA_DEPLOY_KEY_ID", "0") not in ("", "0")


def find_repository(environment: Mapping[str, str], *, given: str | None) -> str:
    """Return the name of the repository. Raises `CommandError` if nothing tells it."""
    owner, name = environment.get("GITEA_REPO_USER_NAME"), environment.get("GITEA_REPO_NAME")
    told = [given, f"{owner}/{name}" if owner and name else "", *map(environment.get, ("GL_PROJECT_PATH", "GL_REPO"))]
    found = next(filter(None, told), None)
    if found is None:
        raise CommandError("the repository is not known: set TOWPATH_REPOSITORY or give --repository")
    return found.removesuffix(".git")
