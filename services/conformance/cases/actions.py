"""The members of actions (docs/protocol.md, "Action object")."""

import re
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import urlsplit

from services.conformance.answer import Answer
from services.conformance.blobs import new_blob
from services.conformance.case import case
from services.conformance.client import bare
from services.conformance.outcome import Level, NotApplicable
from services.conformance.site import Site
from services.conformance.strict_json import is_timestamp

_MAX_SECONDS = 2147483647
# git-lfs takes an action for expired that has fewer.
_MIN_SECONDS = 6
_YEAR_ONE = re.compile(r"000[01]-")
_TOLERANCE = timedelta(minutes=5)


async def _actions(site: Site) -> AsyncIterator[tuple[Answer, str, dict[str, Any]]]:
    """Yield each kind of action that the server hands out, with its name and the answer that has it."""
    for operation in ("upload", "download"):
        answer, entry = await site.first.one(operation, await site.held() if operation == "download" else new_blob())
        for name, action in answer.member(entry, "actions", dict).items():
            if isinstance(action, dict):
                yield answer, name, action


@case("Action object", "href")
async def an_href_is_an_absolute_url(site: Site) -> None:
    """The href of an action is an absolute URL of http or https."""
    async for answer, name, action in _actions(site):
        parts = urlsplit(answer.member(action, "href", str))
        expected = f"an absolute URL for {name}"
        answer.expect(parts.scheme in ("http", "https") and parts.netloc, expected, parts.scheme or "no scheme")


@case("Action object", "href", Level.SHOULD)
async def an_href_has_the_scheme_of_the_base_address(site: Site) -> None:
    """An action of a server that is reached over https has an href of https (trap-33)."""
    if urlsplit(site.first.base_url).scheme != "https":
        raise NotApplicable("the server is reached over http")
    async for answer, name, action in _actions(site):
        scheme = urlsplit(answer.member(action, "href", str)).scheme
        answer.expect(scheme == "https", f"https for {name}", scheme)


@case("Action object", "header")
async def headers_are_strings(site: Site) -> None:
    """The header of an action is an object of strings."""
    async for answer, name, action in _actions(site):
        header = action.get("header", {})
        answer.expect(isinstance(header, dict), f"an object as header of {name}", type(header).__name__)
        kinds = {type(value).__name__ for value in header.values()}
        answer.expect(kinds <= {"str"}, f"strings as headers of {name}", ", ".join(kinds))


@case("Action object", "expires_in, expires_at")
async def expires_in_is_an_integer(site: Site) -> None:
    """The member expires_in is whole seconds, at most 2147483647 in either direction."""
    async for answer, name, action in _actions(site):
        if "expires_in" in action:
            seconds = answer.member(action, "expires_in", int)
            answer.expect(-_MAX_SECONDS <= seconds <= _MAX_SECONDS, f"expires_in of {name} within 32 bits", seconds)


@case("Action object", "expires_in, expires_at")
async def expires_at_is_a_timestamp(site: Site) -> None:
    """The member expires_at is an uppercase RFC 3339 timestamp with second precision."""
    async for answer, name, action in _actions(site):
        if "expires_at" in action:
            text = answer.member(action, "expires_at", str)
            answer.expect(is_timestamp(text), f"expires_at of {name} such as 2026-01-31T12:00:00Z", text)


@case("Action object", "expires_in, expires_at", Level.SHOULD)
async def an_action_is_not_expired(site: Site) -> None:
    """An action does not expire within 5 seconds, or in the past, such as in year 1 (client-23, trap-24)."""
    async for answer, name, action in _actions(site):
        seconds, text = action.get("expires_in"), action.get("expires_at")
        if isinstance(seconds, int) and seconds:
            answer.expect(seconds >= _MIN_SECONDS, f"{_MIN_SECONDS} s or more for {name}", seconds)
        elif isinstance(text, str):
            answer.expect(not _YEAR_ONE.match(text), f"an expiry of {name} in the future", text)
            moment = _moment(text)
            if moment is not None:
                soonest = datetime.now(UTC) + timedelta(seconds=_MIN_SECONDS)
                answer.expect(moment >= soonest, f"an expiry of {name} after {soonest:%Y-%m-%dT%H:%M:%SZ}", text)


@case("Action object", "expires_in, expires_at", Level.SHOULD)
async def both_expiries_agree(site: Site) -> None:
    """The two members of the expiry name the same time, within five minutes of this computer's clock (trap-24)."""
    compared = 0
    async for answer, name, action in _actions(site):
        seconds, text = action.get("expires_in"), action.get("expires_at")
        moment = _moment(text) if isinstance(text, str) else None
        if isinstance(seconds, int) and moment is not None and abs(seconds) <= _MAX_SECONDS:
            compared += 1
            named = datetime.now(UTC) + timedelta(seconds=seconds)
            answer.expect(abs(named - moment) <= _TOLERANCE, f"expires_at of {name} in {seconds} s", text)
    if not compared:
        raise NotApplicable("no action has both members")


@case("Batch response object entry", "authenticated")
async def authenticated_is_a_boolean(site: Site) -> None:
    """The member authenticated is a boolean or absent."""
    for operation, blob in (("download", await site.held()), ("upload", new_blob())):
        answer, entry = await site.first.one(operation, blob)
        if "authenticated" in entry:
            answer.member(entry, "authenticated", bool)


@case("Authentication", "2 actions carry their own", Level.SHOULD)
async def an_authenticated_action_needs_no_more(site: Site) -> None:
    """An action of an authenticated entry works with its own headers alone (client-24, trap-30)."""
    blob = await site.held()
    entry = await site.first.entry("download", blob)
    if entry.get("authenticated") is not True:
        raise NotApplicable("the entries are not authenticated")
    answer = await site.first.get(await site.first.action("download", blob))
    answer.expect(answer.status not in (401, 403), "a status other than 401 and 403")


@case("Authentication", "2 actions carry their own", Level.SHOULD)
async def an_action_without_its_headers_gives_nothing(site: Site) -> None:
    """The bytes are not given to a request that lacks the headers of the action and has no credentials."""
    client = site.nobody
    blob = await site.held()
    public = await client.batch("download", blob.entry)
    action = await site.first.action("download", blob)
    if public.status == 200:
        raise NotApplicable("anybody may read the repository")
    if not action.header or urlsplit(action.href).query:
        raise NotApplicable("the URL alone is the credential")
    answer = await client.get(bare(action))
    answer.expect(not answer.is_success, "a refusal")


@case("Traps of other servers", "25 the password comes back", Level.SHOULD)
async def the_password_never_comes_back(site: Site) -> None:
    """No answer to a batch has the password or the Authorization header of the caller (trap-25)."""
    if site.first.credentials is None:
        raise NotApplicable("no credentials are sent")
    async for answer, name, _ in _actions(site):
        text = answer.content.decode(errors="replace")
        answer.expect(not answer.redactor.holds_secret(text), "no credential of the caller", f"one, with {name}")


def _moment(text: str) -> datetime | None:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    return moment if moment.tzinfo else None
