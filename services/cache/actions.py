"""The actions of an upstream's answer, replaced by those of the cache that stand for them."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import httpx

from services.cache.addresses import Address
from services.cache.tokens import Grant, Tokens
from services.cache.upstream import Upstream
from services.common.oid import is_oid
from services.common.outbound import are_headers, parse_url
from services.facade.auth.action_tokens import TOKEN_HEADER, Operation
from services.facade.web.responses import timestamp

_OPERATIONS = frozenset(Operation)
_DOWNLOAD_SECONDS = 900
_MAX_RELAY_SECONDS = 48 * 3600
_RELAY_SECONDS = 3600
_MAX_SIZE = 2**63 - 1
_MAX_URL_CHARACTERS = 16_384
# The headers of an action that its client itself has to heed.
_OF_CLIENT = ("content-type", "transfer-encoding")


@dataclass(frozen=True)
class ActionMaker:
    """Makes the actions of one batch.

    `origin` is the part of hrefs before the repository, `authorization` the credentials of the caller, which an action
    at the upstream that has none of its own needs.
    """

    tokens: Tokens
    upstream: Upstream
    address: Address
    origin: str
    caller: bytes
    authorization: Sequence[str]

    def kept(self, oid: str, size: int) -> dict[str, Any]:
        """Return the entry that downloads an object which is kept, without an action of the upstream."""
        grant = self._grant(Operation.DOWNLOAD, oid, size, _DOWNLOAD_SECONDS)
        return {"oid": oid, "size": size, "authenticated": True, "actions": {"download": self._action(grant)}}

    def replace(self, answer: Mapping[str, Any]) -> tuple[list[str], list[str]]:
        """Replace, in the answer to a batch, the actions that the cache can stand for.

        These are downloads, and uploads and verifications at the upstream itself. Return the oids that may be
        downloaded, and those that may not.
        """
        allowed: list[str] = []
        refused: list[str] = []
        entries = answer.get("objects")
        for entry in entries if isinstance(entries, list) else []:
            if not isinstance(entry, dict) or not is_oid(entry.get("oid")) or not _is_size(entry.get("size")):
                continue
            oid: str = entry["oid"]
            actions = entry.get("actions")
            if not isinstance(actions, dict):
                refused.append(oid)
                continue
            is_authenticated = entry.get("authenticated") is True
            made = {name: self._replaced(name, entry, action, is_authenticated) for name, action in actions.items()}
            if Operation.DOWNLOAD in actions:
                allowed.append(oid)
            actions.update({name: action for name, action in made.items() if action is not None})
            if made and None not in made.values():
                entry["authenticated"] = True
        return allowed, refused

    def _replaced(
        self, name: str, entry: Mapping[str, Any], action: object, is_authenticated: bool
    ) -> dict[str, Any] | None:
        """Return the action of the cache that stands for one of the upstream; None where it stays."""
        if name not in _OPERATIONS or not isinstance(action, dict) or not isinstance(href := action.get("href"), str):
            return None
        operation = Operation(name)
        headers = action.get("header") or {}
        url = _url(href)
        if url is None or not are_headers(headers) or not self.upstream.may_reach(url):
            return None
        is_own = self.upstream.is_own(url)
        if operation is not Operation.DOWNLOAD and not is_own:
            return None
        seconds = _seconds_left(action)
        if operation is Operation.DOWNLOAD:
            seconds = min(_DOWNLOAD_SECONDS, seconds or _DOWNLOAD_SECONDS)
        else:
            seconds = min(_MAX_RELAY_SECONDS, seconds or _RELAY_SECONDS)
        sealed = {key: value for key, value in headers.items() if key.lower() != "transfer-encoding"}
        if is_own and not is_authenticated and not any(key.lower() == "authorization" for key in sealed):
            sealed |= {"Authorization": self.authorization[0]} if self.authorization else {}
        grant = self._grant(operation, entry["oid"], entry["size"], seconds, str(url), sealed)
        return self._action(grant, {key: value for key, value in headers.items() if key.lower() in _OF_CLIENT})

    def _grant(
        self,
        operation: Operation,
        oid: str,
        size: int,
        seconds: int,
        url: str = "",
        headers: dict[str, str] | None = None,
    ) -> Grant:
        expires_at = int(time.time()) + seconds
        return Grant(operation, self.address.base, oid, size, expires_at, self.caller, url, headers or {})

    def _action(self, grant: Grant, headers: Mapping[str, str] | None = None) -> dict[str, Any]:
        return {
            "href": f"{self.origin}{self.address.object_path(grant.oid)}",
            "header": {**(headers or {}), TOKEN_HEADER: self.tokens.seal(grant)},
            "expires_in": grant.expires_at - int(time.time()),
            "expires_at": timestamp(grant.expires_at),
        }


def _is_size(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= _MAX_SIZE


def _url(href: str) -> httpx.URL | None:
    try:
        url = parse_url(href)
    except httpx.InvalidURL:
        return None
    return url if len(href) <= _MAX_URL_CHARACTERS and url.host and not url.userinfo else None


def _seconds_left(action: Mapping[str, Any]) -> int:
    """Return the seconds until an action expires; 0 where it does not, as servers say by a time long past, too."""
    seconds = action.get("expires_in")
    if isinstance(seconds, int) and not isinstance(seconds, bool) and seconds:
        return max(0, seconds)
    if isinstance(ends := action.get("expires_at"), str):
        try:
            return max(0, int(datetime.fromisoformat(ends).timestamp() - time.time()))
        except (ValueError, OverflowError):
            return 0
    return 0
