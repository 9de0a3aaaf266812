"""The answers of each kind of forge, and the addresses of requests to it."""

from typing import Any

import pytest

from services.locks.access.policy import Role
from services.locks.forges.gitea import Gitea
from services.locks.forges.github import GitHub
from services.locks.forges.gitlab import GitLab
from services.locks.forges.kinds import CredentialRefusedError, Kind
from services.locks.forges.web import Answer, ForgeUnavailableError


def _project(**fields: object) -> dict[str, Any]:
    permissions = {"project_access": None, "group_access": None}
    return {"path_with_namespace": "acme/film", "visibility": "private", "permissions": permissions, **fields}


def _levels(project: int | None, group: int | None) -> dict[str, Any]:
    levels = {"project_access": project, "group_access": group}
    return {"permissions": {name: level and {"access_level": level} for name, level in levels.items()}}


@pytest.mark.parametrize(
    ("fields", "role"),
    [
        (_levels(10, None), None),
        (_levels(10, None) | {"visibility": "public"}, Role.READ),
        (_levels(None, None) | {"visibility": "internal"}, Role.READ),
        (_levels(None, None) | {"visibility": "public", "repository_access_level": "private"}, None),
        (_levels(20, None), Role.READ),
        (_levels(20, None) | {"repository_access_level": "disabled"}, None),
        (_levels(20, 30), Role.WRITE),
        (_levels(30, 20), Role.WRITE),
        (_levels(None, 40), Role.ADMIN),
        (_levels(50, None), Role.ADMIN),
        (_levels(50, None) | {"archived": True}, Role.READ),
        (_levels(10, None) | {"archived": True}, None),
    ],
)
def test_levels_of_gitlab(fields: dict[str, Any], role: Role | None) -> None:
    """The higher level of project and group counts; a guest reads only code that is open to all who see the project."""
    access = GitLab().access_of(Answer(200, _project(**fields)))
    assert access is not None
    assert access.role is role


@pytest.mark.parametrize(
    ("kind", "api_url", "git_url"),
    [
        (GitHub(), "https://api.github.com", "https://github.com/acme/film.git"),
        (GitHub(), "https://git.example.org/api/v3", "https://git.example.org/acme/film.git"),
        (GitHub(), "https://api.acme.ghe.com", "https://acme.ghe.com/acme/film.git"),
        (GitLab(), "https://git.example.org/lab/api/v4", "https://git.example.org/lab/acme/film.git"),
        (Gitea(), "https://git.example.org:3000/api/v1", "https://git.example.org:3000/acme/film.git"),
    ],
)
def test_addresses_of_git(kind: Kind, api_url: str, git_url: str) -> None:
    """The right to write is proved where git pushes."""
    assert kind.git_url(api_url, "acme/film") == git_url


def test_a_project_of_gitlab_is_one_segment() -> None:
    """A slash in a name would lead to another resource."""
    assert GitLab().repository_path("acme/art/film") == "/projects/acme%2Fart%2Ffilm"


@pytest.mark.parametrize("kind", [GitHub(), GitLab(), Gitea()])
def test_answers_that_tell_nothing(kind: Kind) -> None:
    """A 401 is a wrong credential, a 404 no role; and an answer that lacks something is none."""
    with pytest.raises(CredentialRefusedError):
        kind.access_of(Answer(401, {}))
    assert kind.access_of(Answer(404, {})) is None
    for answer in (Answer(204, {}), Answer(200, {"id": 7}), Answer(200, {"full_name": 7, "permissions": {}})):
        with pytest.raises(ForgeUnavailableError):
            kind.access_of(answer)
    names = dict.fromkeys(("full_name", "path_with_namespace", "login", "username"), "acme/\ud800")
    with pytest.raises(ForgeUnavailableError):
        kind.access_of(Answer(200, {"id": 7, "permissions": {}, **names}))
    with pytest.raises(ForgeUnavailableError):
        kind.account_of(Answer(200, {"id": 7, **names}))
    for body in ({"id": True, "login": "x", "username": "x"}, {"id": 7}, {"login": "x", "username": "x"}):
        with pytest.raises(ForgeUnavailableError):
            kind.account_of(Answer(200, body))


@pytest.mark.parametrize("kind", [GitHub(), Gitea()])
@pytest.mark.parametrize("value", ["true", 1, None, False])
def test_only_true_is_a_permission(kind: Kind, value: object) -> None:
    """Nothing else that a forge might say gives a role."""
    body = {"id": 7, "full_name": "acme/film", "permissions": {"admin": value, "push": value, "pull": value}}
    access = kind.access_of(Answer(200, body))
    assert access is not None
    assert access.role is None
