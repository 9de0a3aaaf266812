"""Values from people, from git and from servers."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from services.cli.credential_fields import parse
from services.cli.errors import CommandError
from services.cli.git_credentials import Credential
from services.cli.pointers.named import Pointer, parse_pointer
from services.common.outbound import retry_after
from services.transfer.addresses import folder_of, is_bucket, server_url
from services.transfer.retries import MAX_TRIES, pause
from services.transfer.server.http import origin_of, without_query
from services.transfer.server.locks import TheirLock, parse_list

OID = "0123456789abcdef" * 4
NOW = datetime(2026, 11, 27, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    "text",
    [
        f"version https://git-lfs.github.com/spec/v1\noid sha256:{OID}\nsize 12345\n",
        f"version https://git-lfs.github.com/spec/v1\r\noid sha256:{OID}\r\nsize 12345\r\n",
        f"version http://git-media.io/v/2\noid sha256:{OID}\nsize 12345",
        f"version https://git-lfs.github.com/spec/v1\next-0-case sha256:{'f' * 64}\noid sha256:{OID}\nsize 12345\n",
    ],
)
def test_pointers(text: str) -> None:
    """As git-lfs has written them over the years; the oid is that of what is stored, not of an extension."""
    assert parse_pointer(text.encode()) == Pointer(OID, 12345)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "a text",
        f"oid sha256:{OID}\nsize 1\n",
        f"version x\noid sha256:{OID}\n",
        f"version x\noid sha256:{OID[:-1]}\nsize 1\n",
        f"version x\noid sha256:{OID}\nsize -1\n",
        f"version x\noid sha256:{OID}\nsize 1{'0' * 18}\n",
        f"version x\noid md5:{OID}\nsize 1\n",
    ],
)
def test_what_is_no_pointer(text: str) -> None:
    """A small file that mentions an oid is a file."""
    assert parse_pointer(text.encode()) is None


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("https://git.example/studio/film.git", "https://git.example/studio/film.git/info/lfs"),
        ("https://git.example/studio/film.git/", "https://git.example/studio/film.git/info/lfs"),
        ("https://git.example/studio/film.git/info/lfs", "https://git.example/studio/film.git/info/lfs"),
        ("http://127.0.0.1:8080/demo/assets/", "http://127.0.0.1:8080/demo/assets"),
        ("/srv/film", None),
        ("s3://bucket/prefix", None),
        ("file:///srv/film", None),
    ],
)
def test_addresses_of_servers(text: str, expected: str | None) -> None:
    """As git-lfs has them; the address of a git repository becomes that of its large files."""
    assert server_url(text) == expected


@pytest.mark.parametrize("text", ["https://carol:secret@git.example/x", "https://", "https://x/y?z", "https://[x/y"])
def test_addresses_that_are_none(text: str) -> None:
    """No message repeats what may be a password."""
    with pytest.raises(CommandError) as caught:
        server_url(text)
    assert "secret" not in str(caught.value)


def test_folders_and_buckets() -> None:
    """By a path or a URL."""
    assert folder_of("a/b") == Path("a/b")
    assert folder_of("file:///srv/a%20film") == Path("/srv/a film")
    assert [is_bucket(text) for text in ("s3://b/p", "gs://b", "az://b", "s3", "https://s3/b")] == [True] * 3 + [
        False
    ] * 2
    for text in ("ssh://git@x/y", "file://elsewhere/srv"):
        with pytest.raises(CommandError, match="or a folder, got"):
            folder_of(text)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (None, None),
        ("7", 7.0),
        ("0", 0.0),
        ("Fri, 27 Nov 2026 12:00:30 GMT", 30.0),
        ("Fri, 27 Nov 2026 11:00:30 GMT", 0.0),
        ("soon", None),
        ("-1", None),
        ("\xb2", None),
        ("Mon, 01 Jan 99999999999 00:00:00 GMT", None),
        ("Mon, 01 Jan 2024 00:00:00 +9999", None),
    ],
)
def test_times_to_come_back(value: str | None, expected: float | None) -> None:
    """A number of seconds, or a date; a server that names no time says nothing."""
    assert retry_after(value, NOW) == expected


def test_pauses_grow_and_differ() -> None:
    """So that many clients do not come back at the same moment; a time that is asked for is not shortened."""
    for tries in range(1, MAX_TRIES):
        found = {pause(tries, None) for _ in range(20)}
        assert len(found) > 10
        assert max(found) <= min(30.0, 0.5 * 2 ** (tries - 1))
        assert min(found) >= min(30.0, 0.5 * 2 ** (tries - 1)) / 2
    assert 5 <= pause(1, 5.0) < 6.1


def test_credentials_of_git() -> None:
    """Fields that may stand more than once are left out; no text shows a password."""
    assert parse(b"protocol=https\nusername=carol\npassword=a=b\nwwwauth[]=Basic\nnothing\n") == {
        "protocol": "https",
        "username": "carol",
        "password": "a=b",
    }
    credential = Credential("carol", "secret", {"password": "secret"})
    assert "secret" not in f"{credential!r} {credential}"
    assert credential.header == "Basic Y2Fyb2w6c2VjcmV0"


def test_urls_as_they_are_shown() -> None:
    """Without what may be secret."""
    assert without_query("https://carol:secret@x:1/a/b?signature=c#d") == "https://x:1/a/b"
    assert origin_of("HTTPS://carol@X:1/a") == "https://x:1"


def test_lists_of_locks() -> None:
    """As `git lfs locks --json` prints them; what is unknown of one is left open."""
    later = {"path": "a", "owner": {"name": "c"}, "locked_at": "2026-11-27T13:00:00.123456789+01:00", "id": "1"}
    document = [later, {"path": "b", "owner": None, "locked_at": ""}, {"path": "c", "locked_at": "yesterday"}]
    moment = NOW + timedelta(microseconds=123456)
    assert parse_list(document, "x") == [
        TheirLock("a", "c", moment),
        TheirLock("b", "", None),
        TheirLock("c", "", None),
    ]
    refused: list[object] = [{}, [1], [{"path": ""}], [{"owner": {"name": "x"}}], "text"]
    for wrong in refused:
        with pytest.raises(CommandError, match="x: expected a list of locks"):
            parse_list(wrong, "x")
