"""The user who pushes and the repository, by what git servers tell their hooks (docs/push-hooks.md)."""

from collections.abc import Mapping
from pathlib import Path

from services.cli.errors import CommandError

_MAX_MAP_BYTES = 4 * 1024**2
# Gitea and Forgejo, GitLab, gitolite.
_SERVERS = ("GITEA_PUSHER_NAME", "GL_USERNAME", "GL_USER")
_WEB_SERVER = "REMOTE_USER"


def find_pusher(environment: Mapping[str, str], *, option: str | None, setting: str | None) -> str:
    """Return the name that the git server has for the user who pushes; empty if nothing tells it.

    The option of the hook's command stands first, because only an operator can have written it. The variables of the
    forges stand before the setting TOWPATH_PUSHER. The account that the hook runs as says nothing: many share it.
    """
    if option:
        return option
    if _has_deploy_key(environment):
        return setting or ""
    told = [environment.get(name, "") for name in _SERVERS]
    return next(filter(None, [*told, setting, environment.get(_WEB_SERVER)]), "")


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


def read_user_map(path: Path) -> dict[str, str]:
    """Return the names of users by the names that the git server has for them, from lines `theirs = ours`.

    Lines that are empty or begin with "#" are comments. Raises `CommandError` for other lines, and for a file that
    cannot be read.
    """
    try:
        with path.open("rb") as file:
            text = file.read(_MAX_MAP_BYTES + 1).decode()
    except OSError as error:
        raise CommandError(f"{path}: {(error.strerror or str(error)).lower()}") from error
    except UnicodeDecodeError as error:
        raise CommandError(f"{path}: expected UTF-8") from error
    if len(text) > _MAX_MAP_BYTES:
        raise CommandError(f"{path}: expected at most {_MAX_MAP_BYTES} bytes")
    names = {}
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        theirs, _, ours = map(str.strip, line.partition("="))
        if not (theirs and ours):
            raise CommandError(f"{path}: line {number}: expected such as `Alice.Example = alice`")
        names[theirs] = ours
    return names
