"""Rows of "Collection of garbage": POST {base}/objects/retain."""

import hashlib
from collections.abc import Iterable

import httpx
import pytest

from services.conformance.blobs import Blob, new_blob
from services.conformance.dialects import Dialect
from tests.protocol.administration import Administration
from tests.protocol.client import Client
from tests.protocol.conftest import NewRepository
from tests.support.waiting import blocking_until


def administered(new_repository: NewRepository, operator: Administration) -> Client:
    """Make an empty repository whose admin alice is, and return her client there."""
    client = new_repository()
    operator.grant("alice", client.base_url.split("/", 3)[3], "admin")
    return client


@pytest.fixture
def repository(new_repository: NewRepository, operator: Administration) -> Client:
    """Alice at an empty repository whose admin she is."""
    return administered(new_repository, operator)


@pytest.fixture(scope="module")
def unchanged(new_repository: NewRepository, operator: Administration) -> tuple[Client, Blob]:
    """Alice at a repository from which no request removes the object in it, which is old enough to be garbage."""
    client = administered(new_repository, operator)
    [blob] = aged(client, new_blob())
    return client, blob


def listed(oids: Iterable[str]) -> str:
    """Return a list with its end."""
    lines = "".join(f"{oid}\n" for oid in sorted(oids))
    return f"{lines}end {lines.count(chr(10))} {hashlib.sha256(lines.encode()).hexdigest()}\n"


def retain(
    client: Client, body: str, *, content_type: str = "application/octet-stream", **query: str
) -> httpx.Response:
    """Collect garbage, without grace and of any share unless the query says otherwise."""
    url = httpx.URL(f"{client.base_url}/objects/retain", params={"grace": "0", "most": "100", **query})
    headers = [("Accept", client.dialect.media_type), ("Content-Type", content_type)]
    if client.authorization is not None:
        headers.append(("Authorization", client.authorization))
    return client.send("POST", url, headers=headers, content=body.encode())


def aged(client: Client, *blobs: Blob) -> list[Blob]:
    """Upload objects, and wait until they are old enough to be garbage."""
    for blob in blobs:
        client.upload(blob)
    # What came in the second before the request counts as new.
    blocking_until(lambda: retain(client, listed(["0" * 64])).json()["grace_count"] == 0, "the objects are old")
    return list(blobs)


def test_a_list_is_answered_with_what_it_leaves_out(repository: Client, dialect: Dialect) -> None:
    """A request without `apply` counts the garbage, and changes nothing."""
    kept, garbage = aged(repository, new_blob(), new_blob())
    answer = retain(repository.speaking(dialect), listed([kept.oid, "0" * 64]))
    assert answer.status_code == 200
    assert answer.headers["content-type"] == dialect.media_type
    told = answer.json()
    assert (told["garbage_count"], told["garbage_bytes"], told["held_count"]) == (1, len(garbage.content), 2)
    assert (told["retained_count"], told["retained_held_count"], told["applied"]) == (2, 1, False)
    assert told["oldest_created_at"] == told["newest_created_at"]
    assert repository.holds(garbage)


def test_garbage_is_removed_and_comes_back_by_a_batch(repository: Client) -> None:
    """The download of garbage is 410 with the reason after `apply`, and an announced upload brings it back at once."""
    kept, garbage = aged(repository, new_blob(), new_blob())
    told = retain(repository, listed([kept.oid]), apply="true").json()
    assert (told["applied"], told["removed_count"], told["removed_bytes"]) == (True, 1, len(garbage.content))
    error = repository.entry("download", garbage)["error"]
    assert error["code"] == 410
    assert "no ref of the git repository names it" in error["message"]
    assert repository.holds(kept)
    assert "actions" not in repository.entry("upload", garbage)
    assert repository.get(repository.action("download", garbage)).content == garbage.content


def test_what_is_new_or_used_is_kept(repository: Client) -> None:
    """An object within its two weeks of grace, or newer than the list, is kept."""
    blob = repository.upload(new_blob())
    for query in ({"grace": "1209600"}, {"age": "60"}):
        told = retain(repository, listed(["0" * 64]), apply="true", **query).json()
        assert (told["garbage_count"], told["grace_count"], told["removed_count"]) == (0, 1, 0)
    assert repository.holds(blob)


def test_too_much_garbage_is_409(unchanged: tuple[Client, Blob]) -> None:
    """A list that leaves out more than the expected share removes nothing."""
    repository, blob = unchanged
    answer = retain(repository, listed(["0" * 64]), apply="true", most="50")
    assert answer.status_code == 409
    assert "100.0 %" in answer.json()["message"]
    assert repository.holds(blob)


_LIST = listed(["a" * 64, "b" * 64])


@pytest.mark.parametrize(
    "body",
    [
        "",
        listed([]),
        _LIST.rsplit("end", 1)[0],
        _LIST.replace("end 2", "end 3"),
        _LIST.replace("a" * 64 + "\n", ""),
        "b" * 64 + "\n" + _LIST,
        _LIST + "c" * 64 + "\n",
        _LIST.replace("a", "A"),
        _LIST.replace("a" * 64, "a" * 1000),
        _LIST.replace("a", "é"),
    ],
    ids=["empty", "none", "cut", "count", "lacking", "order", "more", "case", "long", "text"],
)
def test_a_list_that_is_not_whole_is_422(unchanged: tuple[Client, Blob], body: str) -> None:
    """A list that is cut off, or not what its end says, removes nothing."""
    repository, blob = unchanged
    assert retain(repository, body, apply="true").status_code == 422
    assert repository.holds(blob)


@pytest.mark.parametrize(
    "query", [{"apply": "yes"}, {"grace": "-1"}, {"grace": "14d"}, {"most": "0"}, {"most": "101"}, {"age": "86400"}]
)
def test_a_malformed_parameter_is_422(unchanged: tuple[Client, Blob], query: dict[str, str]) -> None:
    """The message of the refusal names the parameter."""
    answer = retain(unchanged[0], _LIST, **query)
    assert answer.status_code == 422
    assert answer.json()["message"].startswith(f"{next(iter(query))}: ")


@pytest.mark.parametrize("content_type", ["application/json", "application/vnd.blob+json", "text/plain"])
def test_a_list_has_its_type(unchanged: tuple[Client, Blob], content_type: str) -> None:
    """A body of another type is 415, also of the types that a page of another site can make a browser send."""
    assert retain(unchanged[0], _LIST, content_type=content_type).status_code == 415


def test_only_admins_of_the_repository_collect(repository: Client, operator: Administration, anonymous: Client) -> None:
    """A writer, and an admin of some refs only, is 403; a stranger to the repository is 404, nobody 401."""
    name = repository.base_url.split("/", 3)[3]
    token = operator.add_user(f"writer-of-{name.replace('/', '-')}")
    writer = repository.showing(f"Bearer {token}")
    assert retain(writer, _LIST).status_code == 404
    operator.grant(f"writer-of-{name.replace('/', '-')}", name, "write")
    assert retain(writer, _LIST).status_code == 403
    operator.grant(f"writer-of-{name.replace('/', '-')}", name, "admin", ["refs/heads/*"])
    assert retain(writer, _LIST).status_code == 403
    operator.grant(f"writer-of-{name.replace('/', '-')}", name, "admin")
    assert retain(writer, _LIST).status_code == 200
    assert retain(anonymous.at(repository.base_url), _LIST).status_code == 401
