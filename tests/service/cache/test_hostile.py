"""Strangers: odd addresses, long and slow requests, and tokens that are not the cache's."""

import asyncio
import json
from pathlib import Path

import httpx
import pytest

from services.cache.settings import CacheSettings
from services.cache.tokens import Grant, Tokens
from services.cache.upstream import Upstream
from services.facade.auth.action_tokens import Operation
from tests.service.cache.conftest import Caller, Callers
from tests.support.cache import RunningCache, running_cache
from tests.support.http import MEDIA_TYPE, content, oid_of
from tests.support.scripted_upstream import ScriptedUpstream
from tests.support.streams import end
from tests.support.waiting import STEP_SECONDS

ODD_PATHS = [
    "/",
    "/far/film",
    "/far/film/objects",
    "/far/film/objects/short",
    "/far/film/objects/batch/more",
    "/far/../../admin/objects/batch",
    "/far/%2e%2e/admin/objects/batch",
    "/far/./film/objects/batch",
    "/far//film/objects/batch",
    "/far%00/objects/batch",
    "/far%0d%0aHost:%20other/objects/batch",
    "/far\\film/objects/batch",
    "/far%ff/objects/batch",
    "/" + "long" * 2000 + "/objects/batch",
    "/admin",
    "/openapi.json",
    "/metrics",
]
ODD_LOCKS = ["/far/../film/locks/verify", "/far/%2e%2e/locks", "/far//film/locks/verify", "/far/film/locks/../unlock"]

KEY = "a key of caches in these tests, and none other"


async def _raw(origin: str, request: bytes) -> bytes:
    host, _, port = origin.partition("://")[2].partition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    try:
        writer.write(request)
        async with asyncio.timeout(STEP_SECONDS):
            return await reader.read()
    except ConnectionError:
        return b""
    finally:
        await end([writer])


async def test_odd_addresses_do_not_reach_the_upstream(upstream: ScriptedUpstream, cache: RunningCache) -> None:
    """They are answered here: 404, and for locks 403, as 404 would switch locking off in a clone."""
    for path in [*ODD_PATHS, *ODD_LOCKS]:
        head = f"POST {path} HTTP/1.1\r\nHost: here\r\nConnection: close\r\nContent-Length: 0\r\n\r\n".encode()
        answer = await _raw(cache.origin, head)
        status = b"403" if path in ODD_LOCKS else b"404"
        assert answer.startswith(b"HTTP/1.1 " + status), (path, answer[:100])
    assert upstream.seen == []


async def test_addresses_reach_the_upstream_as_they_are(
    upstream: ScriptedUpstream, callers: Callers, tmp_path: Path
) -> None:
    """Encoded characters stay encoded, queries stay queries, and one slash at the end of a base means nothing."""
    async with running_cache(tmp_path, f"{upstream.origin}/below") as cache:
        http = callers(cache).http
        for sent, expected in (
            ("/far/film/locks?path=a%2Fb&limit=1", "/below/far/film/locks?path=a%2Fb&limit=1"),
            ("/far/film.git/info/lfs/locks/verify", "/below/far/film.git/info/lfs/locks/verify"),
            ("/far%20away/fil%23m/locks/id%3F/unlock", "/below/far%20away/fil%23m/locks/id%3F/unlock"),
            ("/%252e%252e/film/locks", "/below/%252e%252e/film/locks"),
            ("/far/film//locks", "/below/far/film/locks"),
            ("/locks", "/below/locks"),
        ):
            answer = await http.get(f"{cache.origin}{sent}")
            assert answer.json() == {"target": expected}


async def test_bytes_that_are_no_ascii(upstream: ScriptedUpstream, cache: RunningCache, caller: Caller) -> None:
    """In a credential they pass as they are, and in a query encoded; in an action they are left to the client."""
    oid = upstream.add(b"bytes")
    http = caller.http
    answer = await http.post(
        f"{cache.origin}/far/film/objects/batch",
        json={"operation": "download", "objects": [{"oid": oid, "size": 5}]},
        headers={b"Authorization": "Basic é".encode("latin-1"), b"Content-Type": MEDIA_TYPE.encode()},
    )
    assert answer.status_code == 401
    assert upstream.seen[-1].headers["authorization"] == "Basic é"
    raw = await _raw(
        cache.origin, b"GET /far/film/locks?path=\xff#x HTTP/1.1\r\nHost: here\r\nConnection: close\r\n\r\n"
    )
    assert b" 500 " not in raw[:20]
    for header in ({"X-Odd": "a\r\nX-Other: b"}, {"X Odd": "a"}, {"X-Odd": "é"}):
        upstream.action_fields = {"header": header}
        [entry] = (await caller.batch((oid, 5))).json()["objects"]
        assert entry["actions"]["download"]["href"].startswith(upstream.origin)


@pytest.mark.parametrize("cache_settings", [{"cache_right_seconds": 0}])
async def test_headers_that_cannot_be_sent(upstream: ScriptedUpstream, cache: RunningCache, caller: Caller) -> None:
    """They tell nothing of the upstream, so that no remembered right serves somebody whose access has ended."""
    oid = upstream.add(b"bytes")

    async def answer(path: str, header: bytes, body: bytes = b"{}") -> bytes:
        head = f"POST /far/film/{path} HTTP/1.1\r\nHost: here\r\nConnection: close\r\n".encode()
        return await _raw(cache.origin, head + header + b"\r\nContent-Length: %d\r\n\r\n" % len(body) + body)

    async def is_serving() -> bool:
        ready = (await caller.http.get(f"{cache.origin}/readyz")).json()
        return bool(ready["services"] == {"upstream": "serving"})

    assert (await caller.download(oid, 5)).content == b"bytes"
    upstream.readers.clear()
    asked = json.dumps({"operation": "download", "objects": [{"oid": oid, "size": 5}]}).encode()
    assert (await answer("objects/batch", b"Authorization: reader \t", asked)).startswith(b"HTTP/1.1 401")
    assert upstream.seen[-1].headers["authorization"] == "reader"
    assert (await answer("locks", b"User-Agent: odd ")).startswith(b"HTTP/1.1 200")
    for path in ("objects/batch", "locks"):
        for odd in (b"a\x0bb", b"a\r\n b", b"a\0b"):
            assert (await answer(path, b"User-Agent: " + odd)).startswith(b"HTTP/1.1 400")
    assert await is_serving()
    # Those of an action are the upstream's own fault, and not its end.
    upstream.readers.add("reader")
    upstream.action_fields = {"header": {"Content-Length": "x"}}
    other = upstream.add(b"other")
    assert (await caller.download(other, 5)).status_code == 502
    assert await is_serving()


async def test_methods(upstream: ScriptedUpstream, cache: RunningCache, caller: Caller) -> None:
    """Another method is refused here, with those that there are."""
    http = caller.http
    for method, path in (("GET", "objects/batch"), ("PATCH", "locks"), ("DELETE", f"objects/{oid_of(b'')}")):
        answer = await http.request(method, f"{cache.origin}/far/film/{path}")
        assert (answer.status_code, "allow" in answer.headers) == (405, True)
    assert upstream.seen == []


@pytest.mark.parametrize("cache_settings", [{"cache_key": KEY}])
async def test_forged_tokens(upstream: ScriptedUpstream, caller: Caller) -> None:
    """No token but the cache's own opens anything, nor one of its own for another operation or after its time."""
    data = content("forged", 1000)
    oid = upstream.add(data)
    action = await caller.action(oid, 1000)
    [(name, token)] = action.header.items()

    def sealed(with_key: str, operation: Operation = Operation.DOWNLOAD, expires_at: int = 2**40) -> str:
        return Tokens(with_key).seal(
            Grant(operation, "/far/film", oid, 1000, expires_at, b"", f"{upstream.origin}/store/{oid}")
        )

    middle = len(token) // 2
    changed = token[:middle] + ("A" if token[middle] != "A" else "B") + token[middle + 1 :]
    forged = [
        "",
        "x",
        "=" * 100,
        "é",
        token[:-4],
        token[4:],
        changed,
        sealed("another key, which nobody here has told"),
        sealed(KEY, Operation.UPLOAD),
        sealed(KEY, expires_at=1),
        "x," * 5000,
    ]
    for wrong in forged:
        answer = await caller.http.get(action.href, headers={name.encode(): wrong.encode()})
        assert answer.status_code == 403, wrong[:80]
    assert upstream.downloads(oid) == []
    assert (await caller.http.get(action.href, headers={name: sealed(KEY)})).content == data


@pytest.mark.parametrize("cache_settings", [{"head_seconds": 1, "json_body_seconds": 1, "body_bytes": 10_000}])
async def test_long_and_slow_requests(upstream: ScriptedUpstream, cache: RunningCache, caller: Caller) -> None:
    """Bodies are bounded in bytes and time, heads in both, and the upstream gets none of them."""
    http = caller.http
    headers = {"Content-Type": MEDIA_TYPE}
    for path in ("objects/batch", "locks", "locks/verify"):
        url = f"{cache.origin}/far/film/{path}"
        assert (await http.post(url, content=b"x" * 10_001, headers=headers)).status_code == 413
    late = await _raw(cache.origin, b"POST /far/film/locks HTTP/1.1\r\nHost: here\r\n")
    assert late.startswith(b"HTTP/1.1 408")
    stalled = await _raw(
        cache.origin,
        b"POST /far/film/locks HTTP/1.1\r\nHost: here\r\nConnection: close\r\nContent-Length: 100\r\n\r\nhalf",
    )
    assert stalled.startswith(b"HTTP/1.1 408")
    long = await _raw(cache.origin, b"GET /far/film/locks HTTP/1.1\r\nHost: here\r\nX: " + b"x" * 70_000 + b"\r\n\r\n")
    assert long[:12] in (b"HTTP/1.1 431", b"")
    assert upstream.seen == []


@pytest.mark.parametrize("cache_settings", [{"batch_objects": 3}])
async def test_bodies_have_the_bounds_of_a_server(upstream: ScriptedUpstream, caller: Caller) -> None:
    """Nobody makes the cache read or decode more than a Towpath would; the upstream gets none of it."""
    for path, most in (
        ("objects/batch", 3 * 160 + 65_536),
        ("locks", 32_768),
        ("locks/verify", 32_768),
        ("locks/batch/lock", 1_048_576),
    ):
        for more, status in ((1, 413), (0, 401 if path == "objects/batch" else 200)):
            body = b"{}" + b" " * (most - 2 + more)
            answer = await caller.http.post(f"{caller.base_url}/{path}", content=body)
            assert answer.status_code == status, (path, more)
    upstream.seen.clear()
    answer = await caller.batch(*[(oid_of(b""), 0)] * 4)
    assert (answer.status_code, "lfs.transfer.batchSize" in answer.text) == (413, True)
    assert upstream.seen == []
    assert (await caller.batch(*[(oid_of(b""), 0)] * 3)).status_code == 200


@pytest.mark.parametrize("cache_settings", [{"log_level": "DEBUG"}])
async def test_no_credential_is_logged(upstream: ScriptedUpstream, cache: RunningCache, callers: Callers) -> None:
    """Neither the caller's, nor the token, nor the store's header."""
    data = content("quiet", 1000)
    oid = upstream.add(data)
    upstream.readers = {"Basic c2VjcmV0OmNyZWRlbnRpYWw="}
    caller = callers(cache, "Basic c2VjcmV0OmNyZWRlbnRpYWw=")
    action = await caller.action(oid, 1000)
    upstream.answers = {f"/store/{oid}": (500, {}, b"")}
    assert (await caller.http.get(action.href, headers=action.header)).status_code == 502
    log = cache.log.read_text()
    assert "c2VjcmV0" not in log
    assert "what only the store may see" not in log
    assert not any(token[:40] in log for token in action.header.values())


async def test_odd_answers_of_an_upstream(upstream: ScriptedUpstream, caller: Caller) -> None:
    """A text that is no answer of the interface passes as it is, or with the same meaning."""
    for answer in (b"not json", b"[]", b'{"objects": 5}', b'{"objects":[5,{"oid":5}]}', b"\xff"):
        upstream.answers = {"/objects/batch": (200, {"Content-Type": MEDIA_TYPE}, answer)}
        passed = await caller.batch((oid_of(b""), 0))
        assert passed.status_code == 200, answer
        assert passed.content.replace(b" ", b"") == answer.replace(b" ", b"")
    for href in ("http://[x", "https://xn--/"):
        entry = {"oid": oid_of(b""), "size": 0, "actions": {"download": {"href": href}}}
        told = json.dumps({"objects": [entry]}).encode()
        upstream.answers = {"/objects/batch": (200, {"Content-Type": MEDIA_TYPE}, told)}
        assert (await caller.batch((oid_of(b""), 0))).json() == {"objects": [entry]}
        for status in (201, 307):
            upstream.answers = {"/objects/batch": (status, {"Location": href}, b"")}
            assert (await caller.batch((oid_of(b""), 0))).status_code == 502


async def test_a_redirect_of_the_upstream_leads_here(
    upstream: ScriptedUpstream, cache: RunningCache, caller: Caller
) -> None:
    """A repository that was renamed at the upstream has another address at the cache, too."""
    moved = {"Location": f"{upstream.origin}/new/film/objects/batch"}
    upstream.answers = {"/far/film/objects/batch": (307, moved, b"")}
    answer = await caller.batch((oid_of(b""), 0))
    assert answer.status_code == 307
    assert answer.headers["location"] == f"{cache.origin}/new/film/objects/batch"


@pytest.mark.parametrize("cache_settings", [{"cache_plain_http": True}])
async def test_where_an_upstream_may_lead(upstream: ScriptedUpstream, caller: Caller, tmp_path: Path) -> None:
    """Not to an address that no server has, even by the name of an allowed host, and from HTTPS to no HTTP."""
    oid = upstream.add(b"bytes")
    upstream.store_origin = upstream.origin.replace("127.0.0.1", "[::ffff:127.0.0.1]")
    assert (await caller.download(oid, 5)).status_code == 502
    assert upstream.downloads(oid) == []
    upstream.store_origin = upstream.origin.replace("127.0.0.1", "localhost")
    assert (await caller.download(oid, 5)).content == b"bytes"
    values = {"cache_upstream": "https://lfs.example.org", "cache_directory": tmp_path, "cache_plain_http": True}
    async with Upstream.open(CacheSettings.model_validate(values)) as secure:
        assert secure.may_reach(httpx.URL("https://store.example.org/a"))
        for url in ("http://store.example.org/a", "http://127.0.0.1/a", "ftp://store.example.org/a"):
            assert not secure.may_reach(httpx.URL(url))


async def test_http_of_another_host_is_an_opt_in(tmp_path: Path) -> None:
    """Credentials go over plain HTTP to this host alone, unless the operator says otherwise."""
    values = {"cache_upstream": "http://lfs.example.org", "cache_directory": tmp_path}
    with pytest.raises(ValueError, match="expected https"):
        CacheSettings.model_validate(values)
    assert CacheSettings.model_validate({**values, "cache_plain_http": True}).cache_plain_http
    for url in ("ftp://a", "https://", "https://u:p@a", "https://a?b", "a.example.org"):
        with pytest.raises(ValueError, match="cache_upstream"):
            CacheSettings.model_validate({"cache_upstream": url, "cache_directory": tmp_path})
