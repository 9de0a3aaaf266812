"""Another server as the source and the target of objects, however it throttles, breaks off, forgets or lies."""

import asyncio
import gzip
import json
import subprocess
import time
from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from contextlib import aclosing, nullcontext
from pathlib import Path
from typing import Any

import httpx
import pytest

from services.cli.errors import CommandError
from services.cli.git_credentials import GitCredentials
from services.cli.pointers.named import Pointer
from services.common.outbound import Destinations, LedAstrayError
from services.transfer.errors import Kind, ObjectProblem
from services.transfer.retries import repeated
from services.transfer.server.batch import BatchClient
from services.transfer.server.http import Http, Refused, _target_of
from services.transfer.server.locks import list_locks
from services.transfer.server.objects import ServerSink, ServerSource
from tests.support.http import content, oid_of
from tests.support.programs import needed
from tests.support.scripted_lfs_server import ScriptedServer, Told, scripted_server
from tests.support.waiting import STEP_SECONDS

DATA = content("an object", 700_000)
POINTER = Pointer(oid_of(DATA), len(DATA))


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pauses that the server does not ask for are short."""
    monkeypatch.setattr("services.transfer.retries._FIRST_PAUSE", 0.01)
    monkeypatch.setattr("services.transfer.retries._MAX_PAUSE", 0.02)


@pytest.fixture
def server() -> Iterator[ScriptedServer]:
    """A server with one object."""
    with scripted_server() as running:
        running.add(DATA)
        yield running


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The settings of git of a person whose helper knows nobody yet."""
    needed("git")
    store = tmp_path / "credentials"
    file = tmp_path / "gitconfig"
    file.write_text(f"[credential]\n\thelper = store --file={store}\n")
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(file))
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")
    return store


@pytest.fixture
async def http(server: ScriptedServer, settings: Path) -> AsyncIterator[Http]:  # noqa: ARG001 - the environment names them
    """A client."""
    client = Http(GitCredentials(), server=server.url, max_connections=8)
    yield client
    await client.close()


async def read(source: ServerSource, pointer: Pointer = POINTER) -> bytes:
    """Read an object, with all tries."""

    async def once() -> bytes:
        async with aclosing(source.read(pointer)) as chunks:
            return b"".join([chunk async for chunk in chunks])

    return await repeated(once)


async def problem(source: ServerSource, pointer: Pointer = POINTER) -> ObjectProblem:
    """Return why an object cannot be read."""
    with pytest.raises(ObjectProblem) as caught:
        await read(source, pointer)
    return caught.value


async def test_a_batch_for_many(http: Http, server: ScriptedServer) -> None:
    """One request asks for all of them; the actions are used without asking again."""
    datas = [content(f"object {number}", 100) for number in range(99)]
    server.add(*datas)
    source = ServerSource(http, server.url)
    pointers = [POINTER, *(Pointer(oid_of(data), len(data)) for data in datas)]
    await source.announce(pointers)
    for pointer, data in zip(pointers, [DATA, *datas], strict=True):
        assert await read(source, pointer) == data
    assert server.count("/objects/batch") == 1


async def test_smaller_batches(http: Http, server: ScriptedServer) -> None:
    """A server may take fewer than 100 at once."""
    server.max_batch = 7
    datas = [content(f"object {number}", 100) for number in range(30)]
    server.add(*datas)
    source = ServerSource(http, server.url)
    await source.announce([Pointer(oid_of(data), 100) for data in datas])
    asked = server.count("/objects/batch")
    assert [await read(source, Pointer(oid_of(data), 100)) for data in datas] == datas
    assert server.count("/objects/batch") == asked


@pytest.mark.parametrize("status", [429, 503])
@pytest.mark.parametrize("what", ["/objects/batch", "GET"])
async def test_throttling_is_obeyed(http: Http, server: ScriptedServer, status: int, what: str) -> None:
    """All requests wait until the server wants to be asked again."""
    server.answer(what, Told(status, {"Retry-After": "1"}, b'{"message": "slow down"}'))
    source = ServerSource(http, server.url)
    began = time.monotonic()
    assert list(await asyncio.gather(read(source), read(source))) == [DATA, DATA]
    assert time.monotonic() - began > 1
    assert server.count(what) <= 5


async def test_a_wait_that_is_too_long(http: Http, server: ScriptedServer) -> None:
    """Nobody waits for a day without being told."""
    server.answer("/objects/batch", Told(429, {"Retry-After": "86400"}, b'{"message": "come back tomorrow"}'))
    with pytest.raises(CommandError, match="come back in 86400 s: come back tomorrow"):
        await read(ServerSource(http, server.url))


async def test_a_server_that_fails_for_a_while(http: Http, server: ScriptedServer) -> None:
    """It is asked again, a bounded number of times."""
    server.answer("GET", *[Told(502)] * 3)
    server.answer("/objects/batch", *[Told(500)] * 3)
    assert await read(ServerSource(http, server.url)) == DATA
    server.answer("/objects/batch", *[Told(500)] * 100)
    with pytest.raises(CommandError, match="it answers 500: Internal Server Error; tried 8 times"):
        await read(ServerSource(http, server.url))
    assert len(server.script["/objects/batch"]) == 92


async def test_a_server_that_is_gone(http: Http, server: ScriptedServer) -> None:
    """All tries end with what is wrong."""
    url = server.url
    server.shutdown()
    server.server_close()
    with pytest.raises(CommandError, match=r"cannot be reached: .*; tried 8 times"):
        await read(ServerSource(http, url))


async def test_a_download_goes_on_where_it_broke(http: Http, server: ScriptedServer) -> None:
    """The server is asked for the rest alone, from the end of the last whole piece on."""
    server.breaks.extend([300_000, 262_144])
    assert await read(ServerSource(http, server.url)) == DATA
    ranges = [headers["Range"] for headers in server.headers if "Range" in headers]
    assert ranges == ["bytes=262144-", "bytes=524288-"]


@pytest.mark.parametrize("kind", ["no ranges", "wrong ranges"])
async def test_a_server_that_cannot_go_on(http: Http, server: ScriptedServer, kind: str) -> None:
    """Bytes that came already are skipped, or the download begins anew; the object is right in any case."""
    server.takes_ranges = kind != "no ranges"
    server.wrong_ranges = kind == "wrong ranges"
    server.breaks.append(300_000)
    assert await read(ServerSource(http, server.url)) == DATA


@pytest.mark.parametrize("ends", [{"expires_in": -5.0}, {"expires_at": "2020-01-01T00:00:00Z"}])
async def test_an_action_that_has_ended(http: Http, server: ScriptedServer, ends: dict[str, float | str]) -> None:
    """It is not used: the batch is asked anew."""
    for name, value in ends.items():
        setattr(server, name, value)
    source = ServerSource(http, server.url)
    await source.announce([POINTER])
    assert server.count("GET") == 0
    server.expires_in, server.expires_at = None, "0001-01-01T00:00:00Z"
    assert await read(source) == DATA
    assert (server.count("/objects/batch"), server.count("GET")) == (2, 1)


async def test_an_action_that_is_refused(http: Http, server: ScriptedServer) -> None:
    """The server may have ended it early: one more is asked for, and no third."""
    source = ServerSource(http, server.url)
    server.answer("GET", Told(403))
    assert await read(source) == DATA
    server.answer("GET", *[Told(403, body=b'{"message": "not yours"}')] * 9)
    found = await problem(ServerSource(http, server.url))
    assert (found.kind, found.message) == (Kind.FAILED, "it answers 403: not yours")
    assert len(server.script["GET"]) == 7


async def test_objects_that_are_not_there(http: Http, server: ScriptedServer) -> None:
    """By the batch, or by the download itself."""
    lost = Pointer(oid_of(b"lost"), 4)
    found = await problem(ServerSource(http, server.url), lost)
    assert (found.kind, found.message) == (Kind.MISSING, "the server says 404: there is none")
    server.answer("GET", *[Told(404)] * 9)
    assert (await problem(ServerSource(http, server.url))).kind is Kind.MISSING
    assert len(server.script["GET"]) == 7


async def test_an_object_of_another_size(http: Http, server: ScriptedServer) -> None:
    """More bytes are refused as they come, and fewer at their end."""
    source = ServerSource(http, server.url)
    found = await problem(source, POINTER._replace(size=10))
    assert (found.kind, found.message) == (Kind.WRONG, "there are more than 10 bytes")
    found = await problem(source, POINTER._replace(size=len(DATA) + 1))
    assert (found.kind, found.message) == (Kind.WRONG, f"there are {len(DATA)} bytes instead of {len(DATA) + 1}")


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (b"<html>", "the answer is no JSON object; is it the address for git-lfs"),
        (b"[]", "the answer is no JSON object"),
        (b'{"objects": 1}', "the answer to the batch is none of the protocol"),
        (b'{"transfer": "tus", "objects": []}', "expected the transfer basic"),
        (b'{"hash_algo": "sha512", "objects": []}', "expected the transfer basic and the hash sha256"),
        (b"[" * 100_000, "the answer is no JSON object"),
        (b" " * (16 * 1024**2 + 1), "expected an answer of at most"),
    ],
)
async def test_nonsense(http: Http, server: ScriptedServer, body: bytes, expected: str) -> None:
    """It is told what was expected, and nothing is done."""
    server.answer("/objects/batch", Told(200, body=body))
    with pytest.raises(CommandError, match=expected):
        await read(ServerSource(http, server.url))


@pytest.mark.parametrize(
    ("members", "expected"),
    [
        ({"actions": {"download": {"href": "file:///etc/passwd"}}}, "not http or https"),
        ({"actions": {"download": {"href": "http://[x/"}}}, "not http or https"),
        ({"actions": {"download": {"href": "https://xn--/"}}}, "not http or https"),
        ({"actions": {"download": {"href": "http://h", "header": {"X": "é"}}}}, "headers that are not of printable"),
        ({"actions": {"download": 5}}, "does not follow the protocol"),
        ({"error": "gone"}, "does not follow the protocol"),
    ],
)
async def test_one_bad_entry(http: Http, server: ScriptedServer, members: dict[str, Any], expected: str) -> None:
    """It is a problem of its object, and the other objects have their actions."""
    other = Pointer(oid_of(b"other"), 5)
    good = {"oid": other.oid, "actions": {"download": {"href": "https://h/other"}}}
    told = {"objects": [{"oid": POINTER.oid, **members}, 5, {"oid": []}, good]}
    server.answer("/objects/batch", Told(200, body=json.dumps(told).encode()))
    answer = await BatchClient(http, server.url).ask("download", [POINTER, other])
    assert expected in answer.problems[POINTER.oid].message
    assert answer.actions[other.oid]["download"].href == "https://h/other"


async def test_an_entry_as_old_servers_write_it(http: Http, server: ScriptedServer) -> None:
    """Its actions are `_links`, and an address may lack the server."""
    entry = {"oid": POINTER.oid, "_links": {"download": {"href": "../object"}}}
    server.answer("/objects/batch", Told(200, body=json.dumps({"objects": [entry]}).encode()))
    server.answer("/object", Told(200, body=DATA))
    assert await read(ServerSource(http, server.url)) == DATA


async def test_silence_about_an_object(http: Http, server: ScriptedServer) -> None:
    """An object that the answer leaves out is a problem of its own."""
    server.answer("/objects/batch", Told(200, body=b'{"objects": []}'))
    assert (await problem(ServerSource(http, server.url))).message == "the server says nothing about it"


async def test_a_redirection_of_the_batch(http: Http, server: ScriptedServer) -> None:
    """It is told, without what may be a signature."""
    server.answer("/objects/batch", Told(301, {"Location": "https://new.example/film?token=secret"}))
    with pytest.raises(CommandError, match=r"it redirects to https://new.example/film; give that address"):
        await read(ServerSource(http, server.url))


def approve(server: ScriptedServer, name: str, password: str) -> None:
    """Give a credential to git's helper."""
    text = f"protocol=http\nhost={server.origin.removeprefix('http://')}\nusername={name}\npassword={password}\n\n"
    subprocess.run(["git", "credential", "approve"], input=text, text=True, check=True, timeout=STEP_SECONDS)


async def test_credentials_by_a_helper(http: Http, server: ScriptedServer) -> None:
    """They are asked for once, although many requests need them, and sent from then on."""
    server.login = ("carol", "pass:wörd")
    datas = [content(f"object {number}", 100) for number in range(20)]
    server.add(*datas)
    approve(server, *server.login)
    source = ServerSource(http, server.url)
    found = await asyncio.gather(*(read(source, Pointer(oid_of(data), 100)) for data in datas))
    assert found == datas
    unsigned = [headers for headers in server.headers if "Authorization" not in headers]
    assert len(unsigned) <= len(datas)


async def test_no_credentials(http: Http, server: ScriptedServer) -> None:
    """Nobody is asked at a terminal; it is told what to do."""
    server.login = ("carol", "secret")
    with pytest.raises(CommandError, match="git has none for it"):
        await read(ServerSource(http, server.url))


async def test_wrong_credentials(http: Http, server: ScriptedServer, settings: Path) -> None:
    """The helper learns that they are wrong, and no message has them."""
    server.login = ("carol", "secret")
    approve(server, "carol", "guessed")
    assert "guessed" in _text_of(settings)
    with pytest.raises(CommandError) as caught:
        await read(ServerSource(http, server.url))
    assert "refuses the name and the password" in str(caught.value)
    assert "guessed" not in str(caught.value)
    assert _text_of(settings) == ""


def _text_of(file: Path) -> str:
    return file.read_text()


async def test_credentials_stay_with_their_server(http: Http, server: ScriptedServer) -> None:
    """Another server that the batch points to gets none."""
    server.login = ("carol", "secret")
    approve(server, *server.login)
    with scripted_server() as store:
        store.add(DATA)
        action = {"href": f"{store.url}/objects/1/{POINTER.oid}"}
        body = f'{{"objects": [{{"oid": "{POINTER.oid}", "actions": {{"download": {{"href": "{action["href"]}"}}}}}}]}}'
        source = ServerSource(http, server.url)
        # The first answer asks for the credentials; the second is the batch's.
        server.answer("/objects/batch", Told(401), Told(200, body=body.encode()))
        assert await read(source) == DATA
        assert all("Authorization" not in headers for headers in store.headers)
    assert any("Authorization" in headers for headers in server.headers)


async def test_a_redirect_to_another_origin(http: Http, server: ScriptedServer, settings: Path) -> None:
    """It gets none of the action's own headers; and where it asks for credentials, those of the server stay."""
    server.login = ("carol", "secret")
    approve(server, *server.login)
    with scripted_server() as store:
        store.add(DATA)
        target = {"Location": f"{store.url}/objects/1/{POINTER.oid}"}
        given = {"X-Token": "secret", "Range": "bytes=10-"}
        server.answer("/objects/9/", Told(401), Told(302, target), Told(302, target))
        async with http.send("GET", f"{server.url}/objects/9/x", headers=given) as response:
            assert b"".join([chunk async for chunk in response.aiter_bytes()]) == DATA[10:]
        assert server.headers[-1]["X-Token"] == "secret"
        assert {"X-Token", "Authorization"} & {*store.headers[-1]} == set()
        store.login = ("carol", "other")
        with pytest.raises(Refused, match="it answers 401"):
            async with http.send("GET", f"{server.url}/objects/9/x", headers=given):
                pass
    assert "secret" in _text_of(settings)


async def test_redirects_without_end(http: Http, server: ScriptedServer) -> None:
    """They are followed a few times."""
    server.answer("/objects/9/", *[Told(302, {"Location": f"{server.url}/objects/9/x"})] * 9)
    with pytest.raises(CommandError, match="redirects without end"):
        async with http.send("GET", f"{server.url}/objects/9/x", headers={}):
            pass
    assert len(server.requests) == 6


@pytest.mark.parametrize("location", ["http://[x", "https://xn--/"])
async def test_a_redirect_to_no_url(http: Http, server: ScriptedServer, location: str) -> None:
    """It is refused at once, whatever the parsers of URLs raise."""
    server.answer("GET", Told(302, {"Location": location}))
    assert (await problem(ServerSource(http, server.url))).message == "the server answers with an invalid URL"
    for status in (300, 307):
        server.answer("/objects/batch", Told(status, {"Location": location}))
        with pytest.raises(CommandError, match="the server answers with an invalid URL"):
            await read(ServerSource(http, server.url))


async def test_a_refusal_that_is_nested_deeply(http: Http, server: ScriptedServer) -> None:
    """Its status is told."""
    server.answer("/objects/batch", Told(403, body=b"[" * 100_000))
    with pytest.raises(CommandError, match="it answers 403: Forbidden"):
        await read(ServerSource(http, server.url))


@pytest.mark.parametrize("location", ["http://files.example/x", "file:///etc/passwd", "ftp://files.example/x"])
def test_a_redirect_to_another_scheme(location: str) -> None:
    """A request that was encrypted is not repeated in the clear."""
    request = httpx.Request("GET", "https://git.example/x")
    with pytest.raises(Refused, match="the server redirects from https to"):
        _target_of(httpx.Response(302, headers={"Location": location}, request=request))


async def test_a_coding_that_nobody_asked_for(http: Http, server: ScriptedServer) -> None:
    """A hundred bytes may become a gigabyte."""
    coded = Told(200, {"Content-Encoding": "gzip, gzip"}, gzip.compress(gzip.compress(DATA)))
    server.answer("/objects/batch", coded)
    with pytest.raises(Refused, match="Content-Encoding is 'gzip, gzip', which was not asked for"):
        await http.json("POST", f"{server.url}/objects/batch", {})
    server.answer("GET", coded)
    assert "which was not asked for" in (await problem(ServerSource(http, server.url))).message


class _Connected:
    """A new connection."""

    def __init__(self, address: str) -> None:
        self._address = address
        self.is_closed = False

    def get_extra_info(self, name: str) -> tuple[str, int]:
        """Return the other end's address and port."""
        assert name == "server_addr"
        return self._address, 443

    async def aclose(self) -> None:
        """Close it."""
        self.is_closed = True


@pytest.mark.parametrize(
    ("server", "address", "is_followed"),
    [
        ("8.8.8.8", "93.184.215.14", True),
        ("8.8.8.8", "127.0.0.1", False),
        ("8.8.8.8", "10.0.0.1", False),
        ("10.0.0.1", "127.0.0.1", True),
        ("10.0.0.1", "169.254.169.254", False),
        ("127.0.0.1", "8.8.8.8", True),
        ("169.254.169.254", "169.254.169.254", False),
        ("100.100.100.200", "100.100.100.200", False),
        ("fe80::1", "fe80::1", False),
        ("a..b", "10.0.0.1", False),
    ],
)
async def test_the_addresses_to_which_a_server_may_lead(server: str, address: str, *, is_followed: bool) -> None:
    """A server of the internet leads to no machine of this network, nor does its name, and no cloud's agent is one."""
    stream, look = _Connected(address), Destinations(server).check("files.example")
    told = f"the server leads to files.example, at the address {address}"
    with nullcontext() if is_followed else pytest.raises(LedAstrayError, match=told):
        await look("connection.connect_tcp.complete", {"return_value": stream})
    assert stream.is_closed != is_followed


async def test_locks_of_all_pages(http: Http, server: ScriptedServer) -> None:
    """The first page is asked for without a limit."""
    server.page = 7
    server.locks = [
        {
            "id": str(number),
            "path": f"a/{number}",
            "owner": {"name": "carol"},
            "locked_at": "2026-01-02T03:04:05.6+01:00",
        }
        for number in range(30)
    ]
    found = await list_locks(http, server.url)
    assert found is not None
    assert [lock.path for lock in found] == [f"a/{number}" for number in range(30)]
    assert found[0].locked_at is not None
    assert found[0].locked_at.isoformat() == "2026-01-02T03:04:05.600000+01:00"
    assert server.requests[0] == "GET /studio/film/locks"


async def test_locks_of_a_server_without(http: Http, server: ScriptedServer) -> None:
    """It is no error that giftless and rudolfs have none; other answers are."""
    server.answer("/locks", Told(404))
    assert await list_locks(http, server.url) is None
    server.answer("/locks", Told(403, body=b'{"message": "no"}'))
    with pytest.raises(CommandError, match="it answers 403: no"):
        await list_locks(http, server.url)
    server.answer("/locks", Told(200, body=b'{"locks": null}'))
    assert await list_locks(http, server.url) == []
    server.answer("/locks", *[Told(200, body=b'{"locks": [], "next_cursor": "1"}')] * 2)
    with pytest.raises(CommandError, match="the pages do not end"):
        await list_locks(http, server.url)


async def write(sink: ServerSink, data: bytes) -> None:
    """Write an object, with all tries."""

    async def chunks() -> AsyncGenerator[bytes, None]:
        for start in range(0, len(data), 100_000):
            yield data[start : start + 100_000]

    await repeated(lambda: sink.write(Pointer(oid_of(data), len(data)), chunks()))


async def test_an_upload(http: Http, server: ScriptedServer) -> None:
    """The server gets what it lacks, in pieces, and verifies it if it wants to."""
    server.has_verify = True
    server.login = ("carol", "secret")
    approve(server, *server.login)
    new = content("new", 500_000)
    sink = ServerSink(http, server.url)
    lacking = await sink.lacking([POINTER, Pointer(oid_of(new), len(new))])
    assert [pointer.oid for pointer in lacking.pointers] == [oid_of(new)]
    await write(sink, new)
    assert server.objects[oid_of(new)] == new
    assert server.verified == [oid_of(new)]


async def test_an_upload_that_is_throttled(http: Http, server: ScriptedServer) -> None:
    """It is begun anew, and an action that has ended is asked for again."""
    server.answer("PUT", Told(503), Told(429, {"Retry-After": "0"}), Told(403))
    new = content("new", 500_000)
    await write(ServerSink(http, server.url), new)
    assert server.objects[oid_of(new)] == new
    assert server.count("PUT") == 4
