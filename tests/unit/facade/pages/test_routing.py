"""Requests for pages, and the page of each address."""

import pytest
from starlette.responses import Response
from starlette.types import Scope

from services.facade.pages.application import _ROUTES
from services.facade.pages.routing import may_be_page, page, wants_page
from services.facade.pages.visit import Visit, local_path
from tests.support.tabs import HTML

OWN = frozenset({"/", "/docs"})
GIT_LFS = "application/vnd.git-lfs+json"


def scope(path: str, accept: str | None = HTML, method: str = "GET") -> Scope:
    """Return a request."""
    headers = [] if accept is None else [(b"accept", accept.encode())]
    return {"type": "http", "method": method, "path": path, "headers": headers}


@pytest.mark.parametrize("accept", [HTML, "text/html", "TEXT/html, */*", f"text/html, {GIT_LFS};q=0.9"])
@pytest.mark.parametrize("method", ["GET", "HEAD"])
def test_browsers_want_pages(accept: str, method: str) -> None:
    """They name HTML, and prefer it to the media types of the interface."""
    assert wants_page(scope("/studio/film", accept, method))
    assert may_be_page(scope("/studio/film", accept, method), OWN)


@pytest.mark.parametrize(
    "accept",
    [
        None,
        "",
        "*/*",
        "text/*",
        GIT_LFS,
        "application/json",
        f"{GIT_LFS}, text/html",
        f"{GIT_LFS}, text/html;q=0.5",
        "application/*, text/html;q=0.5",
        "text/html;q=0.9, */*",
        "x",
    ],
)
def test_programs_do_not(accept: str | None) -> None:
    """Only at the addresses that nothing but a page has."""
    assert not may_be_page(scope("/studio/film/locks", accept), OWN)
    for path in ("/-/sign-in", "/-/nothing", "/", "/docs"):
        names_dialect = accept is not None and GIT_LFS in accept
        assert may_be_page(scope(path, accept), OWN) is (path.startswith("/-/") or not names_dialect)
        assert not wants_page(scope(path, accept))


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE"])
def test_changes_at_the_addresses_of_the_interface_are_its_own(method: str) -> None:
    """Whatever they accept."""
    assert not may_be_page(scope("/studio/film/locks", HTML, method), OWN)
    assert may_be_page(scope("/-/sign-in", None, method), OWN)


@pytest.mark.parametrize("name", ["film", "studio/film", "a/b/c.d-e_f", ".film", "studio/film.git/info/lfs"])
def test_names_of_repositories(name: str) -> None:
    """They have any number of segments, and begin with no hyphen."""
    matched = page("locks", "/{repository}/locks", _show).pattern.fullmatch(f"/{name}/locks")
    assert matched is not None
    assert matched["repository"] == name


@pytest.mark.parametrize("name", ["", "-", "-/film", "a//b", "/a", "a/", "a b", "<b>", "a\n", "é", "a%2fb"])
def test_what_is_no_name(name: str) -> None:
    """No page has it in its address."""
    assert page("locks", "/{repository}/locks", _show).pattern.fullmatch(f"/{name}/locks") is None


def test_each_address_is_that_of_one_page() -> None:
    """But for the page of a repository, which is last: a repository may have almost any name."""
    for route in _ROUTES[:-1]:
        path = route.path.replace("{repository}", "studio/film").replace("{name}", "x")
        found = [
            other.operation_id
            for other in _ROUTES[:-1]
            if other.pattern.fullmatch(path) and other.methods & route.methods
        ]
        assert found == [route.operation_id]
    names = [route.operation_id for route in _ROUTES]
    assert len(set(names)) == len(names)


@pytest.mark.parametrize("path", ["/", "/studio/film?a=%2F&b=c", "/-/history/studio/film", "/%2f%2fevil", "/..//evil"])
def test_paths_of_this_site(path: str) -> None:
    """They are taken as they are."""
    assert local_path(path) == path


@pytest.mark.parametrize(
    "path",
    [
        "",
        "x",
        "//evil",
        "///evil",
        "/\\evil",
        "https://evil",
        "https:evil",
        "javascript:alert(1)",
        "evil.example",
        ".evil.example",
        "@evil.example",
        ":80@evil.example/",
        "\\evil",
        "\\\\evil",
        "/\t/evil",
        "/\n/evil",
        "/a\n",
        "/a\r\nSet-Cookie: a=b",
        "/\x00",
        "/\u2028/evil",
        "/日本",
        "/\ufffd",
        "/" + "a" * 3_000,
        " /a",
    ],
)
def test_paths_of_other_sites(path: str) -> None:
    """They lead to the first page."""
    assert local_path(path) == "/"


async def _show(visit: Visit) -> Response:
    """A page that is never shown."""
    raise NotImplementedError(visit)
