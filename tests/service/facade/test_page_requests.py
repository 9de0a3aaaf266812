"""Requests to the pages that no page leads to: addresses that lead away, floods, odd names, and other clients."""

import asyncio
from collections import Counter
from contextlib import AsyncExitStack
from urllib.parse import quote, urljoin, urlsplit

import httpx
import pytest
from towpath.access.v1 import admin_service_pb2 as admin

from tests.service.facade import raw
from tests.service.facade.conftest import Inner, Place, new_place
from tests.support.event_stream import next_event, open_stream
from tests.support.facade import RunningFacade
from tests.support.http import MEDIA_TYPE, Action
from tests.support.tabs import HTML, SESSION, Tab, is_sign_in
from tests.support.waiting import until_answer

GIT_LFS = "application/vnd.git-lfs+json"
PROXY = {"x_forwarded_proto": "https", "x_forwarded_host": "lfs.example.org", "x_forwarded_prefix": "/lfs"}


# tests/unit/facade/pages/test_routing.py has many more.
AWAY = ["//evil.example", "/a\r\nSet-Cookie: a=b", "/%2f%2fevil.example", "/%5cevil.example", "/.//evil", "/..//evil"]


@pytest.mark.parametrize("there", AWAY)
async def test_no_address_leads_off_the_site(place: Place, stranger: Tab, there: str) -> None:
    """Neither the one after a sign-in, which a link of another site may name, nor the one after a change."""
    shown = await stranger.get(f"/-/sign-in?next={quote(there)}")
    assert shown.status_code == 200
    signed_in = await stranger.sign_in(place.inner.tokens["alice"], next=there)
    async with place.client() as alice:
        id_ = (await alice.lock("a.psd")).json()["lock"]["id"]
    sent = {"csrf": await stranger.csrf(), "id": id_, "back": there}
    changed = await stranger.send(f"/-/release/{place.name}", sent)
    assert changed.status_code == 303, changed.text
    for answer in (signed_in, changed):
        led = urlsplit(urljoin(stranger.origin + "/-/sign-in", answer.headers["location"]))
        assert f"{led.scheme}://{led.netloc}" == stranger.origin
        assert answer.headers.get_list("set-cookie") == ([] if answer is changed else [answer.headers["set-cookie"]])


@pytest.mark.parametrize("there", AWAY)
async def test_no_address_leads_off_the_site_behind_a_prefix(
    inner: Inner, behind_proxy: RunningFacade, there: str
) -> None:
    """Behind a prefix, no address leads to what another program serves at the same host."""
    async with Tab(behind_proxy.origin) as tab:
        fields = {"token": inner.tokens["alice"], "next": there}
        answer = await tab.send("/-/sign-in", fields, origin="https://lfs.example.org", **PROXY)
        assert answer.status_code == 303
        assert answer.headers["location"].startswith("/lfs/")
        assert urlsplit(urljoin("https://lfs.example.org/lfs/", answer.headers["location"])).netloc == "lfs.example.org"


async def test_links_behind_a_prefix(inner: Inner, behind_proxy: RunningFacade) -> None:
    """All links and forms have the prefix that the proxy strips, and the form of the outer origin is accepted."""
    async with Tab(behind_proxy.origin) as tab:
        place = await new_place(behind_proxy, inner)
        answer = await tab.get(f"/{place.name}/locks", **PROXY)
        assert answer.headers["location"].startswith("/lfs/-/sign-in?next=")
        await tab.sign_in(inner.tokens["alice"])
        for path in ("/", f"/{place.name}", f"/{place.name}/locks", f"/-/history/{place.name}"):
            text = (await tab.get(path, **PROXY)).text
            links = [
                part.partition('"')[0] for name in (' href="', ' action="', ' src="') for part in text.split(name)[1:]
            ]
            assert links
            assert {link for link in links if not link.startswith(("/lfs/", "#"))} == set(), path
        assert "https://lfs.example.org/lfs/" + place.name in (await tab.get(f"/{place.name}", **PROXY)).text


async def test_the_public_address_is_enough(inner: Inner) -> None:
    """Behind a proxy that is not trusted, and that only `public_url` tells of: sign-in and forms work as over https."""
    public = "https://public.example"
    async with inner.running_facade(public_url=f"{public}/towpath") as facade, Tab(facade.origin) as tab:
        host = {"host": "inner.example", "origin": public}
        assert 'name="token"' in (await tab.get("/-/sign-in", host="inner.example")).text
        answer = await tab.send("/-/sign-in", {"token": inner.tokens["alice"]}, **host)
        assert (answer.status_code, answer.headers["location"]) == (303, "/towpath/")
        foreign = await tab.send(
            "/-/sign-in", {"token": inner.tokens["alice"]}, **{**host, "origin": "https://x.example"}
        )
        assert foreign.status_code == 403


async def test_bad_tokens_of_the_form_count(inner: Inner) -> None:
    """As many as the limit says, and then the form is refused, with the time after which it is not."""
    # An address of its own, because all facades of these tests count together.
    address = {"x_forwarded_for": "203.0.113.77"}
    limits = {"failed_logins": "2/hour", "trusted_proxies": "127.0.0.1"}
    async with inner.running_facade(**limits) as facade, Tab(facade.origin) as tab:
        tries = [await tab.send("/-/sign-in", {"token": f"wrong-{number}"}, **address) for number in range(4)]
        assert [answer.status_code for answer in tries] == [401, 401, 429, 429]
        refused = await tab.send("/-/sign-in", {"token": "wrong"}, **address)
        assert int(refused.headers["retry-after"]) > 0
        assert "<h1>Too Many Requests</h1>" in refused.text


@pytest.mark.parametrize("token", ["", " ", "a b", "é", "a\nb", "a" * 1_025, "\x00", "<b>"])
async def test_what_can_be_no_token(stranger: Tab, token: str) -> None:
    """The form is shown again with what is wrong, and without the token."""
    answer = await stranger.send("/-/sign-in", {"token": token, "next": "/x"})
    assert (answer.status_code, "set-cookie" in answer.headers) == (401, False)
    assert 'role="alert"' in answer.text
    assert 'value="/x"' in answer.text
    assert len(token) < 4 or token not in answer.text


async def test_forms_are_bounded(place: Place, tab: Tab) -> None:
    """In bytes, in fields, in type, and each field comes once."""
    path = f"/-/release/{place.name}"
    huge = await tab.send(path, {"csrf": "x" * 40_000})
    assert huge.status_code == 413
    many = await tab.send(path, {f"field{number}": "" for number in range(21)})
    assert many.status_code == 422
    twice = await tab.send(path, f"csrf={await tab.csrf()}&csrf=x&id=1".encode())
    assert twice.status_code == 422
    for body in (b"csrf=%ff", b"\xff", b"&" * 1_000):
        assert (await tab.send(path, body)).status_code in (403, 422)
    for media_type in ("text/plain", "multipart/form-data; boundary=x", "application/json", ""):
        assert (await tab.send(path, b"csrf=x", content_type=media_type)).status_code == 415
    zipped = await tab.send(path, b"csrf=x", content_encoding="gzip")
    assert zipped.status_code == 415
    csrf = await tab.csrf()
    for fields in ({}, {"id": ""}, {"id": "x" * 1_001}):
        assert (await tab.send(path, {"csrf": csrf, **fields})).status_code == 422
    assert (await tab.send(path, {"csrf": csrf, "id": "1", "force": "1"})).status_code == 422
    too_long = {"csrf": csrf, "id": "1", "reason": "x" * 501}
    assert (await tab.send(f"/-/steal/{place.name}", too_long)).status_code == 422


async def test_a_slow_form_is_given_up(inner: Inner) -> None:
    """After the time that JSON bodies have, too."""
    async with inner.running_facade(json_body_seconds=0.5) as facade, raw.connected(facade) as (reader, writer):
        headers = {"Sec-Fetch-Site": "same-origin", "Accept": "text/html", "Content-Length": "100"}
        form = Action(f"{facade.origin}/-/sign-in", {**headers, "Content-Type": "application/x-www-form-urlencoded"})
        writer.write(raw.head(form, "POST") + b"token=")
        status, told, _ = await raw.answer(reader)
        assert (status, told["content-type"]) == (408, "text/html; charset=utf-8")


async def test_watches_of_the_pages_are_bounded(inner: Inner, http: httpx.AsyncClient) -> None:
    """Of a hundred streams of one user, a quarter of the limit is served; streams of the interface count too."""
    async with inner.running_facade(lock_watches=40) as facade, Tab(facade.origin) as tab:
        place = await new_place(facade, inner)
        await tab.sign_in(inner.tokens["alice"])
        async with AsyncExitStack() as streams:
            interface = {"Authorization": f"Bearer {inner.tokens['alice']}"}
            kept = await streams.enter_async_context(open_stream(http, f"{place.base_url}/locks/events", interface))
            await next_event(kept)

            async def watched() -> int:
                url, headers = f"{facade.origin}/-/watch/{place.name}", {"Cookie": f"{SESSION}={tab.cookie}"}
                return (await streams.enter_async_context(http.stream("GET", url, headers=headers))).status_code

            statuses = Counter(await asyncio.gather(*(watched() for _ in range(100))))
            assert statuses == {200: 9, 429: 91}
            assert (await tab.get(f"/{place.name}/locks")).status_code == 200


async def test_an_anonymous_reader(facade: RunningFacade, inner: Inner, stranger: Tab) -> None:
    """Sees the locks of a public repository, can change none, and sees no other repository."""
    place, hidden = await new_place(facade, inner, public=True), await new_place(facade, inner)
    async with place.client() as alice:
        id_ = (await alice.lock("a.psd")).json()["lock"]["id"]
    answer = await stranger.get(f"/{place.name}/locks")
    assert answer.status_code == 200
    assert "a.psd" in answer.text
    assert '<form class="fields"' not in answer.text
    assert ">Release<" not in answer.text
    assert (await stranger.get(f"/{place.name}")).status_code == 200
    for path in ("release", "steal"):
        assert is_sign_in(await stranger.send(f"/-/{path}/{place.name}", {"id": id_, "reason": "mine"}))
    for path in (f"/{hidden.name}", f"/{hidden.name}/locks", f"/-/history/{hidden.name}", f"/-/watch/{hidden.name}"):
        assert is_sign_in(await stranger.get(path)), path
    home = (await stranger.get("/")).text
    assert (place.name in home, hidden.name in home) == (True, False)
    async with place.client() as alice:
        assert [lock["owner"]["name"] for lock in (await alice.locks()).json()["locks"]] == ["alice"]


async def test_a_reader_steals_nothing(place: Place, inner: Inner, stranger: Tab) -> None:
    """A reader, and a writer of other refs, get a page that says so; others are told of no repository."""
    async with place.client() as alice:
        id_ = (await alice.lock("a.psd")).json()["lock"]["id"]

    async def statuses(user: str) -> set[tuple[int, str]]:
        await stranger.sign_in(inner.tokens[user])
        sent = {"csrf": await stranger.csrf(), "id": id_, "reason": "mine"}
        answers = [
            await stranger.send(f"/-/steal/{place.name}", sent),
            await stranger.send(f"/-/release/{place.name}", {**sent, "force": "1"}),
            await stranger.send(f"/-/release/{place.name}", sent),
        ]
        # The page of the error is one of the session.
        assert all("Sign out" in answer.text for answer in answers)
        return {(answer.status_code, answer.headers["content-type"]) for answer in answers}

    assert await statuses("carol") == {(404, "text/html; charset=utf-8")}
    await inner.locks.grant("carol", place.name, admin.ROLE_READ)
    await until_answer({(403, "text/html; charset=utf-8")}, lambda: statuses("carol"))
    assert await statuses("bob") == {(403, "text/html; charset=utf-8")}
    async with place.client() as alice:
        assert [lock["owner"]["name"] for lock in (await alice.locks()).json()["locks"]] == ["alice"]


async def test_a_writer_of_some_refs_releases_a_lock(place: Place, stranger: Tab) -> None:
    """A lock of one's own needs no ref, as in git-lfs."""
    async with place.client("bob", ref="refs/heads/bob") as bob:
        made = await bob.lock("b.psd")
        assert made.status_code == 201, made.text
    await stranger.sign_in(place.inner.tokens["bob"])
    sent = {"csrf": await stranger.csrf(), "id": made.json()["lock"]["id"]}
    assert (await stranger.send(f"/-/release/{place.name}", sent)).status_code == 303
    assert "b.psd" not in (await stranger.get(f"/{place.name}/locks")).text


async def test_http_from_afar_has_no_sign_in(place: Place, stranger: Tab) -> None:
    """The page says why and has no field for a token, and a token that is sent all the same makes no session."""
    shown = await stranger.get("/-/sign-in", host="lfs.studio.example")
    assert "Sign-in needs https" in shown.text
    assert 'name="token"' not in shown.text
    token = place.inner.tokens["alice"]
    origin = {"origin": "http://lfs.studio.example"}
    answer = await stranger.send("/-/sign-in", {"token": token}, host="lfs.studio.example", **origin)
    assert (answer.status_code, "set-cookie" in answer.headers) == (401, False)
    assert "sign-in needs https" in answer.text
    for host in ("localhost:8080", "127.0.0.1", "[::1]", "[::1]:8080"):
        assert 'name="token"' in (await stranger.get("/-/sign-in", host=host)).text, host


ODD_PATHS = [
    "/<script>alert(1)</script>",
    "/<script>alert(1)</script>/locks",
    "/-/history/<script>",
    "/-/history/",
    "/-/history/studio%2ffilm%0a",
    "/-/history/%e2%80%aefilm",
    "/-/watch/",
    "/-/watch/..%2f..",
    "/-/static/",
    "/-/static/..%2fapplication.py",
    "/-/static/%2e%2e%2fapplication.py",
    "/-/static/towpath.css/",
    "/-/",
    "/-",
    "/-/nothing",
    "/-/sign-in/",
    "//evil.example",
    "/studio//film",
    "/studio/film/",
    "/studio/../film",
    "/%00/locks",
    "/.git/config",
    "/a" * 2_000,
    "/" + "a" * 5_000 + "/locks",
    "/studio/film.git/info/lfs",
    "/studio/film.git/info/lfs/locks",
    "/é/locks",
]


@pytest.mark.parametrize("path", ODD_PATHS)
async def test_odd_addresses(tab: Tab, path: str) -> None:
    """Each is answered by a page that says no, never by an error of the server, and never with the markup in it."""
    answer = await tab.get(quote(path, safe="/%"))
    assert answer.status_code in (303, 400, 401, 404, 405), answer.text
    assert "alert(1)" not in answer.text.replace("&lt;script&gt;alert(1)", "")


@pytest.mark.parametrize(
    "query",
    ["cursor=x", "cursor=%00", "folder=%ff", "owner=" + "x" * 5_000, "folder=../", "folder=%00&owner=%00&path=%00"],
)
async def test_odd_queries(place: Place, tab: Tab, query: str) -> None:
    """They are refused as what the client got wrong, or find nothing."""
    for path in (f"/{place.name}/locks", f"/-/history/{place.name}", "/"):
        answer = await tab.get(f"{path}?{query}")
        assert answer.status_code in (200, 400, 422), answer.text


@pytest.mark.parametrize("host", ["<script>", "evil.example/..", "a b", "a@b", "", "x:99999999"])
async def test_odd_hosts(place: Place, tab: Tab, host: str) -> None:
    """A host that can be none stands in no page."""
    async with raw.connected(place.facade) as (reader, writer):
        lines = [f"GET /{place.name} HTTP/1.1", f"Host: {host}", f"Accept: {HTML}", f"Cookie: {SESSION}={tab.cookie}"]
        writer.write("\r\n".join([*lines, "", ""]).encode())
        status, _, body = await raw.answer(reader)
        assert status == 400
        assert b"<script>" not in body


async def test_head_is_get_without_a_body(place: Place, tab: Tab) -> None:
    """For pages and static files; the stream, which has no end, knows no HEAD."""
    for path in ("/", "/-/sign-in", f"/{place.name}", f"/{place.name}/locks", "/-/static/towpath.css"):
        got, head = await tab.get(path), await tab.get(path, method="HEAD")
        assert (head.status_code, head.content) == (200, b""), path
        if "csrf" not in got.text:
            assert head.headers["content-length"] == got.headers["content-length"]
    head = await tab.get(f"/-/watch/{place.name}", method="HEAD")
    assert head.status_code == 405


async def test_methods_that_no_page_has(place: Place, tab: Tab) -> None:
    """Are named as such, with those that there are."""
    for path, method, allow in (
        ("/-/sign-out", "GET", "POST"),
        (f"/-/steal/{place.name}", "GET", "POST"),
        ("/-/sign-in", "DELETE", "GET, HEAD, POST"),
        (f"/-/history/{place.name}", "POST", "GET, HEAD"),
    ):
        answer = await tab.get(path, method=method)
        assert (answer.status_code, answer.headers["allow"]) == (405, allow)


async def test_unknown_addresses_of_the_pages(tab: Tab) -> None:
    """A browser gets a page that leads back, and others get JSON."""
    answer = await tab.get("/-/nothing")
    assert (answer.status_code, answer.headers["content-type"]) == (404, "text/html; charset=utf-8")
    assert "<h1>Not Found</h1>" in answer.text
    for accept in ("*/*", GIT_LFS, MEDIA_TYPE, "application/json"):
        answer = await tab.get("/-/nothing", accept=accept)
        assert (answer.status_code, "json" in answer.headers["content-type"]) == (404, True)


@pytest.mark.parametrize(("accept", "status"), [(f"{GIT_LFS}, text/html", 200), ("text/*", 406)])
async def test_programs_get_json(place: Place, accept: str, status: int) -> None:
    """Only who prefers HTML to the media types of the interface gets a page at an address of both."""
    headers = {"Authorization": f"Bearer {place.inner.tokens['alice']}", "Accept": accept}
    async with place.client() as alice:
        answer = await alice.http.get(f"{place.base_url}/locks", headers=headers)
    assert (answer.status_code, "json" in answer.headers["content-type"]) == (status, True)
    assert status != 200 or answer.json()["locks"] == []


async def test_a_session_is_no_credential_of_the_interface(place: Place, tab: Tab) -> None:
    """So a page of another site can ask the interface for nothing by way of it; and a token is no session of a page."""
    answer = await tab.get(f"/{place.name}/locks", accept=GIT_LFS)
    assert answer.status_code == 401
    async with Tab(tab.origin) as other:
        shown = {"authorization": f"Bearer {place.inner.tokens['alice']}"}
        assert is_sign_in(await other.get(f"/{place.name}/locks", **shown))


async def test_hostile_paths_stay_text(place: Place, tab: Tab) -> None:
    """Markup is escaped wherever it stands, and marks that hide or turn text are shown as what they are."""
    hostile = "<img src=x onerror=alert(1)>\u202egnp.exe\n\"'&"
    async with place.client() as alice:
        assert (await alice.lock(hostile)).status_code == 201
    text = (await tab.get(f"/{place.name}/locks?folder={quote(hostile)}")).text
    assert "<img" not in text
    assert "\u202e" not in text.partition("<tbody>")[2]
    assert "&lt;img src=x onerror=alert(1)&gt;" in text
    assert '<span class="code-point">U+202E</span>' in text
    assert '<span class="code-point">U+000A</span>' in text
