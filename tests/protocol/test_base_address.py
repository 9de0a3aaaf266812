"""Base addresses (docs/protocol.md, "What the service does" 5 and "Base address")."""

import json

import pytest

from services.conformance.blobs import new_blob
from services.conformance.dialects import GENERIC
from tests.protocol import raw
from tests.protocol.administration import Administration
from tests.protocol.answers import check
from tests.protocol.client import Client
from tests.protocol.conftest import NewRepository
from tests.support.stack import Stack
from tests.support.waiting import blocking_until


def batch_at(client: Client, origin: str, prefix: str) -> int:
    """Send a batch to a base address whose path goes on the wire as it is; return the status."""
    body = json.dumps({"operation": "download", "objects": []}).encode()
    answer = raw.exchange(origin, "POST", f"{prefix}/objects/batch", client.headers(body=True), body)
    return check(answer, GENERIC).status_code


ALIASES = (".git/info/lfs", "/info/lfs", ".git", ".git/")


@pytest.mark.parametrize("end", ALIASES)
def test_the_alias_names_the_same_repository(alice: Client, end: str) -> None:
    """Each alias is the plain base address, because the client and other tools guess or paste different ones."""
    alias = alice.at(f"{alice.base_url}{end}")
    blob = alias.upload(new_blob())
    assert alice.holds(blob)
    lock = alias.lock(f"alias/{blob.oid}").json()["lock"]
    assert alice.locks(id=lock["id"]).json()["locks"] == [lock]
    assert alice.verify_locks().status_code == alias.verify_locks().status_code == 200
    assert alias.unlock(lock["id"]).json() == {"lock": lock}


def test_action_urls_are_those_of_the_plain_base_address(alice: Client) -> None:
    """An `=` before the oid confuses git-lfs, so the URLs are `{origin}/{repository}/objects/{oid}` (client-21)."""
    blob = new_blob()
    for client in (alice, *(alice.at(f"{alice.base_url}{end}") for end in ALIASES)):
        actions = client.entry("upload", blob)["actions"]
        assert {action["href"] for action in actions.values()} == {f"{alice.base_url}/objects/{blob.oid}"}


@pytest.mark.parametrize("host", ["goods.example.org", "goods.example.org:8443", "127.0.0.1:1", "[::1]:8080"])
def test_action_urls_name_the_host_that_the_client_knows(alice: Client, host: str) -> None:
    """A client can follow an href only if it is absolute and names the host that the client knows (trap-33)."""
    blob = new_blob()
    body = json.dumps({"operation": "upload", "objects": [blob.entry]}).encode()
    headers = [("Host", host), *alice.headers(body=True)]
    answer = alice.send("POST", f"{alice.base_url}/objects/batch", headers=headers, content=body)
    hrefs = {action["href"] for action in answer.json()["objects"][0]["actions"].values()}
    assert hrefs == {f"http://{host}/demo/assets/objects/{blob.oid}"}


def test_a_repository_may_lie_at_any_depth(new_repository: NewRepository) -> None:
    """A repository name has one or more segments, and every base address has to work at any depth."""
    for name in ("single", "one/two/three/four/five", "Dots.and-dashes_/v1.0"):
        client = new_repository(name)
        blob = client.upload(new_blob())
        assert client.holds(blob)
        assert client.at(f"{client.base_url}.git/info/lfs").holds(blob)


def test_a_repository_may_be_named_like_an_endpoint(new_repository: NewRepository) -> None:
    """A segment is any of [A-Za-z0-9._-], so the repository `studio/locks` must not be taken for an endpoint."""
    outer, inner = new_repository("studio"), new_repository("studio/locks")
    objects = new_repository("studio/objects")
    outer_lock = outer.lock("a").json()["lock"]
    inner_lock = inner.lock("b").json()["lock"]
    assert outer.locks().json()["locks"] == [outer_lock]
    assert inner.locks().json()["locks"] == [inner_lock]
    assert objects.locks().json()["locks"] == []
    assert objects.holds(objects.upload(new_blob()))


@pytest.mark.parametrize(
    "prefix",
    [
        "/demo/%61ssets",
        "/demo/assets/",
        "/demo/assets.git/info/lfs/",
        "/demo/assets/info/lfs/",
        "/demo/assets%2egit",
        "/demo/assets%2egit/info/%6cfs",
    ],
)
def test_spellings_of_an_address_name_the_same_repository(alice: Client, stack: Stack, prefix: str) -> None:
    """Clients may add a trailing slash or percent-encode characters, and mean the same repository."""
    assert batch_at(alice, stack.origin, prefix) == 200


@pytest.mark.parametrize(
    "prefix",
    [
        "/contract/../demo/assets",
        "/contract/%2e%2e/demo/assets",
        "/contract/%2E./demo/assets",
        "/demo/./assets",
        "/demo/assets/..",
        "/../demo/assets",
        "/demo//assets",
        "/demo/assets%00",
        "/demo/assets%20",
        "/demo/ass%ffets",
        "/demo/assets=x",
        "/Demo/Assets",
        "/demo/assets.git.git",
        "/demo/assets.git/info",
        "/demo/assets/info/lfs/info/lfs",
        "/demo/assets/info/lfs.git",
        "/demo/a%0Ab",
        "/" + "x" * 300,
        "/",
    ],
)
def test_no_other_address_leads_into_a_repository(alice: Client, anonymous: Client, stack: Stack, prefix: str) -> None:
    """A segment is never `.` or `..` and has no `=`, so `..` or `%2e%2e` bypasses no check."""
    assert batch_at(alice, stack.origin, prefix) == 404
    assert batch_at(anonymous, stack.origin, prefix) == 401


@pytest.mark.parametrize(
    "prefix",
    ["/demo/assets", "/demo%2fassets", "/demo%2Fassets", "/carol/..%2fdemo/assets", "/carol/%2e%2e%2fdemo/assets"],
)
def test_no_spelling_of_an_address_gives_access(carol: Client, anonymous: Client, stack: Stack, prefix: str) -> None:
    """A percent-encoded slash or `..` in an address must not get around the access check of a repository."""
    assert batch_at(carol, stack.origin, prefix) == 404
    assert batch_at(anonymous, stack.origin, prefix) in (401, 404)


def test_a_repository_made_again_never_sees_the_objects_of_its_forerunner(
    operator: Administration, new_repository: NewRepository
) -> None:
    """Storage knows a repository by its id, so a token of the old repository opens nothing of its successor."""
    old = new_repository("contract/again")
    blob, lost = old.upload(new_blob()), new_blob()
    download, upload = old.action("download", blob), old.action("upload", lost)
    old.lock("again.bin")
    operator.remove_repository("contract/again")
    operator.until(404, lambda: old.batch("download", blob.entry))
    new = new_repository("contract/again")
    assert not new.holds(blob)
    assert new.locks().json() == {"locks": []}
    # By an access that ended with the repository.
    assert new.get(download).status_code == 403
    assert new.put(upload, lost.content).status_code == 403
    assert not new.holds(lost)


def test_a_renamed_repository_keeps_what_it_holds(
    stack: Stack, operator: Administration, new_repository: NewRepository
) -> None:
    """A repository is its id, so a rename loses no object or lock; the old address works until it is another's."""
    old = new_repository("contract/before")
    blob, lock = old.upload(new_blob()), old.lock("kept.bin").json()["lock"]
    operator.rename_repository("contract/before", "contract/after")
    new = old.at(f"{stack.origin}/contract/after")
    assert new.get(new.action("download", blob)).content == blob.content
    assert new.locks().json()["locks"] == [lock]
    assert old.get(old.action("download", blob)).content == blob.content
    assert old.locks().json()["locks"] == [lock]
    successor = new_repository("contract/before")
    # An address of before may be known for a second.
    blocking_until(lambda: not successor.holds(blob), "the address is that of the successor")
    assert successor.locks().json() == {"locks": []}
    assert new.holds(blob)
