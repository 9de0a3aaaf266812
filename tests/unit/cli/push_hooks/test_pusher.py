"""The user who pushes and the repository, by what git servers tell."""

from pathlib import Path

import pytest

from services.cli.errors import CommandError
from services.cli.push_hooks.pusher import Pusher, find_pusher, find_repository
from services.cli.user_map import read_user_map

GITEA = {
    "GITEA_PUSHER_NAME": "alice",
    "GITEA_PUSHER_ID": "7",
    "GITEA_DEPLOY_KEY_ID": "0",
    "GITEA_REPO_USER_NAME": "studio",
    "GITEA_REPO_NAME": "film",
}
GITLAB = {"GL_USERNAME": "alice", "GL_ID": "user-7", "GL_PROJECT_PATH": "group/film", "GL_REPOSITORY": "project-9"}
GITOLITE = {"GL_USER": "alice", "GL_REPO": "studio/film"}


@pytest.mark.parametrize(
    ("environment", "repository", "account_id"),
    [(GITEA, "studio/film", "7"), (GITLAB, "group/film", "7"), (GITOLITE, "studio/film", "")],
    ids=["Gitea", "GitLab", "gitolite"],
)
def test_servers(environment: dict[str, str], repository: str, account_id: str) -> None:
    """Each server tells who pushes and where; an option and the setting of the repository stand before it.

    The id is that of the account that is named, and never that of a name of the operator's.
    """
    environment = {**environment, "USER": "git", "REMOTE_USER": "proxy"}
    assert find_pusher(environment, option=None, setting=None) == Pusher("alice", account_id)
    assert find_pusher(environment, option=None, setting="carol") == Pusher("alice", account_id)
    assert find_pusher(environment, option="bot", setting="carol") == Pusher("bot")
    assert find_repository(environment, given=None) == repository
    assert find_repository(environment, given="other/name.git") == "other/name"


def test_plain_ssh_and_http() -> None:
    """The setting says it, or the web server; the account of the server never does."""
    shared = {"USER": "git", "LOGNAME": "git"}
    assert find_pusher(shared, option=None, setting=None) == Pusher("")
    assert find_pusher(shared, option=None, setting="alice") == Pusher("alice")
    assert find_pusher({**shared, "REMOTE_USER": "alice"}, option=None, setting=None) == Pusher("alice")
    with pytest.raises(CommandError, match="TOWPATH_REPOSITORY"):
        find_repository({"GITEA_REPO_NAME": "film"}, given=None)


def test_a_deploy_key_is_not_the_owner_of_its_repository() -> None:
    """Gitea names the owner for it, whose locks must not let a machine pass."""
    environment = {**GITEA, "GITEA_DEPLOY_KEY_ID": "7"}
    assert find_pusher(environment, option=None, setting=None) == Pusher("")
    assert find_pusher(environment, option="deployer", setting=None) == Pusher("deployer")
    assert find_pusher({**GITLAB, "GL_ID": "key-7"}, option=None, setting=None) == Pusher("alice")


def test_the_user_map(tmp_path: Path) -> None:
    """A line for each user, and comments."""
    path = tmp_path / "users"
    path.write_text("# ours are short\n\nAlice.Example = alice\nbob=robert\n")
    assert read_user_map(path) == {"Alice.Example": "alice", "bob": "robert"}


@pytest.mark.parametrize("content", [b"alice\n", b"= alice\n", b"alice =\n", b"\xff = alice\n"])
def test_a_map_that_cannot_be_meant(content: bytes, tmp_path: Path) -> None:
    """A push is not checked by half of a map."""
    path = tmp_path / "users"
    path.write_bytes(b"bob = bob\n" + content)
    with pytest.raises(CommandError, match=r"users: (line 2: )?expected"):
        read_user_map(path)
    with pytest.raises(CommandError, match="no such file"):
        read_user_map(tmp_path / "none")
