"""The commands of clients of SSH."""

import pytest

from services.ssh.command import Command, Program, parse_command
from services.ssh.errors import Refused

ALL = tuple(Program)


@pytest.mark.parametrize(
    "path",
    [
        "studio/film",
        "/studio/film",
        "'studio/film.git'",
        "/studio/film.git/",
        '"/studio/film.git/info/lfs"',
        "studio/film/info/lfs",
    ],
)
def test_a_path_is_the_name_of_a_repository(path: str) -> None:
    """In all spellings that are base addresses, and quoted as a client may."""
    expected = Command(Program.TRANSFER, "studio/film", "upload")
    assert parse_command(f"git-lfs-transfer {path} upload", ALL) == expected


def test_authenticate_takes_an_oid_of_old_clients() -> None:
    """git-lfs before 1.2 names the object, too."""
    command = parse_command(f"git-lfs-authenticate a download {'0' * 64}", ALL)
    assert command == Command(Program.AUTHENTICATE, "a", "download")


@pytest.mark.parametrize(
    ("text", "status"),
    [
        ("", 1),
        ("   ", 1),
        ("bash -c id", 127),
        ("/usr/bin/git-lfs-transfer a upload", 127),
        ("git-lfs-transfer", 1),
        ("git-lfs-transfer a", 1),
        ("git-lfs-transfer a upload x", 1),
        ("git-lfs-authenticate a lock", 1),
        ("git-lfs-transfer a delete", 1),
        ("git-lfs-transfer 'a upload", 127),
        ("git-lfs-transfer '' upload", 1),
        ("git-lfs-transfer / upload", 1),
        ("git-lfs-transfer .. upload", 1),
        ("git-lfs-transfer ../a upload", 1),
        ("git-lfs-transfer a//b upload", 1),
        ("git-lfs-transfer a/./b upload", 1),
        ("git-lfs-transfer 'a?b' upload", 1),
        ("git-lfs-transfer 'a#b' upload", 1),
        ("git-lfs-transfer 'a%2e%2e/b' upload", 1),
        ("git-lfs-transfer 'a\nb' upload", 1),
        ("git-lfs-transfer 'a\0b' upload", 1),
        ("git-lfs-transfer ä upload", 1),
        (f"git-lfs-transfer {'a' * 256} upload", 1),
    ],
)
def test_anything_else_is_refused(text: str, status: int) -> None:
    """No path leaves the repositories, and nothing is given to a shell."""
    with pytest.raises(Refused) as caught:
        parse_command(text, ALL)
    assert caught.value.status == status
    assert "\n" not in caught.value.message


def test_a_program_that_is_not_offered_is_unknown() -> None:
    """A client goes on with the other one."""
    with pytest.raises(Refused, match=r"^expected git-lfs-authenticate, got another command$") as caught:
        parse_command("git-lfs-transfer a upload", [Program.AUTHENTICATE])
    assert caught.value.status == 127
