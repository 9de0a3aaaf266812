"""The server, and the issuer at which it lets people sign in: device authorization (RFC 8628), refresh and exchange."""

import time
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from services.cli.sign_in.web import WebError, get_json, is_acceptable, post_form, send_form

_DEVICE_CODE = "urn:ietf:params:oauth:grant-type:device_code"
_EXCHANGE = "urn:ietf:params:oauth:grant-type:token-exchange"
_ID_TOKEN = "urn:ietf:params:oauth:token-type:id_token"  # noqa: S105 - the name of a type, not a token
_OFFLINE = "offline_access"
_SCOPES = ("openid", "profile", "email", "groups", _OFFLINE)
# The errors of issuers that give this person, or this client, no token for when the person is away.
_NOT_OFFLINE = ("invalid_scope", "not_allowed")
_INTERVAL_SECONDS = 5.0
_SLOWER_SECONDS = 5.0
_MAX_INTERVAL_SECONDS = 60.0
_MIN_INTERVAL_SECONDS = 1.0
_DEFAULT_SECONDS = 600.0
_MAX_SECONDS = 3_600.0
_MAX_TOKEN_SECONDS = 366 * 24 * 3_600


class Provider(NamedTuple):
    """An issuer, the client's id and secret there, and its endpoints.

    Programs on everybody's computers keep no secret, but some issuers ask for one all the same.
    """

    name: str
    issuer: str
    client_id: str
    client_secret: str
    endpoints: Mapping[str, Any]

    @property
    def client(self) -> dict[str, str]:
        """The fields by which the issuer knows the client at its token endpoint."""
        secret = {"client_secret": self.client_secret} if self.client_secret else {}
        return {"client_id": self.client_id, **secret}

    def endpoint(self, name: str) -> str:
        """Return the URL of an endpoint. Raises `WebError` if the issuer has none that credentials may go to."""
        url = self.endpoints.get(name)
        if not isinstance(url, str) or not is_acceptable(url) or not url.isascii():
            raise WebError(f"{self.issuer} has no {name} by https, so that nobody can sign in there at a terminal")
        return url


class Tokens(NamedTuple):
    """The ID token, and the refresh token if the issuer gives one."""

    id_token: str
    refresh_token: str


class Device(NamedTuple):
    """The address that a person opens, the code to enter there, and the fields that the device polls with."""

    address: str
    complete_address: str
    user_code: str
    device_code: str
    seconds: float
    interval: float


def find_provider(server: str, name: str = "") -> Provider:
    """Return the issuer at which a server lets people sign in: the one of that name, or the only one.

    Raises `WebError`.
    """
    listed = get_json(f"{server}/.well-known/towpath").get("issuers")
    entries = [entry for entry in (listed if isinstance(listed, list) else []) if isinstance(entry, dict)]
    found = [entry for entry in entries if name in ("", entry.get("name"))]
    if len(found) != 1:
        names = ", ".join(str(entry.get("name")) for entry in found)
        raise WebError(f"{server}: give --issuer, one of {names}" if found else f"{server}: nobody signs in here")
    name, issuer, client_id = (_text(server, found[0], field) for field in ("name", "issuer", "client_id"))
    return describe(name, issuer, client_id, _text(server, found[0], "client_secret", ""))


def describe(name: str, issuer: str, client_id: str, client_secret: str) -> Provider:
    """Return an issuer with its endpoints. Raises `WebError`."""
    endpoints = get_json(f"{issuer.rstrip('/')}/.well-known/openid-configuration")
    if endpoints.get("issuer") != issuer:
        raise WebError(f"{issuer}: its discovery document is that of another issuer")
    return Provider(name, issuer, client_id, client_secret, endpoints)


def sign_in_elsewhere(provider: Provider, show: Callable[[Device], None]) -> Tokens:
    """Let a person sign in at the address of a code, which `show` shows, and return the tokens. Raises `WebError`.

    Most issuers give a refresh token for the scope `offline_access` only. Where an issuer refuses that scope, the
    person has to sign in again without it.
    """
    try:
        device = start(provider)
        show(device)
        return wait(provider, device)
    except WebError as error:
        if error.code not in _NOT_OFFLINE:
            raise
    device = start(provider, offline=False)
    show(device)
    return wait(provider, device)


def start(provider: Provider, *, offline: bool = True) -> Device:
    """Ask for a code with which a person signs in elsewhere. Raises `WebError`."""
    known = provider.endpoints.get("scopes_supported")
    wanted = _SCOPES if offline else tuple(scope for scope in _SCOPES if scope != _OFFLINE)
    scopes = [scope for scope in wanted if scope == "openid" or (isinstance(known, list) and scope in known)]
    fields = {"client_id": provider.client_id, "scope": " ".join(scopes)}
    answer = post_form(provider.endpoint("device_authorization_endpoint"), fields)
    # Google has the name of the standard's drafts.
    address = "verification_uri" if "verification_uri" in answer else "verification_url"
    return Device(
        _text(provider.issuer, answer, address),
        _text(provider.issuer, answer, "verification_uri_complete", ""),
        _text(provider.issuer, answer, "user_code"),
        _text(provider.issuer, answer, "device_code"),
        min(_seconds(provider.issuer, answer, "expires_in", _DEFAULT_SECONDS), _MAX_SECONDS),
        max(_seconds(provider.issuer, answer, "interval", _INTERVAL_SECONDS), _MIN_INTERVAL_SECONDS),
    )


def _text(source: str, answer: Mapping[str, Any], name: str, default: str | None = None) -> str:
    """Return a member of an answer. Raises `WebError` if it is no text, or missing without a default."""
    value = default if answer.get(name) is None else answer[name]
    if not isinstance(value, str):
        raise WebError(f"{source}: {name}: expected a text")
    return value


def _seconds(source: str, answer: Mapping[str, Any], name: str, default: float) -> float:
    """Return a duration in an answer. Raises `WebError` if it is no number from 0 on."""
    try:
        seconds = default if answer.get(name) is None else float(answer[name])
    except (TypeError, ValueError, OverflowError):
        seconds = -1.0
    # Not `seconds < 0`, which NaN is not.
    if not seconds >= 0:
        raise WebError(f"{source}: {name}: expected a number of seconds")
    return seconds


def wait(provider: Provider, device: Device, *, sleep: Callable[[float], None] = time.sleep) -> Tokens:
    """Wait until the person has signed in. Raises `WebError`, also when the person refuses or the code expires."""
    ends_at, interval = time.monotonic() + device.seconds, device.interval
    url = provider.endpoint("token_endpoint")
    fields = {"grant_type": _DEVICE_CODE, "device_code": device.device_code, **provider.client}
    while True:
        sleep(min(interval, _MAX_INTERVAL_SECONDS))
        if time.monotonic() >= ends_at:
            raise WebError("the code has expired; sign in again")
        try:
            answer = post_form(url, fields)
        except WebError as error:
            if error.code == "slow_down":
                interval += _SLOWER_SECONDS
            elif error.is_refusal and error.code != "authorization_pending":
                raise
        else:
            return _tokens(answer)


def refresh(provider: Provider, refresh_token: str) -> Tokens:
    """Return new tokens. Raises `WebError`, with `is_refusal` if the person has to sign in again."""
    fields = {"grant_type": "refresh_token", "refresh_token": refresh_token, **provider.client}
    found = _tokens(post_form(provider.endpoint("token_endpoint"), fields))
    return found if found.refresh_token else found._replace(refresh_token=refresh_token)


def _tokens(answer: Mapping[str, Any]) -> Tokens:
    # A refresh need not give an ID token; the access token of most issuers is a JSON Web Token as well.
    token = answer.get("id_token") or answer.get("access_token")
    if not isinstance(token, str):
        raise WebError("the issuer gives no ID token")
    refresh_token = answer.get("refresh_token")
    return Tokens(token, refresh_token if isinstance(refresh_token, str) else "")


def exchange(server: str, id_token: str) -> Mapping[str, Any]:
    """Return the answer of a server to an ID token: `access_token`, `expires_in` and `user`. Raises `WebError`."""
    fields = {"grant_type": _EXCHANGE, "subject_token": id_token, "subject_token_type": _ID_TOKEN}
    answer = post_form(f"{server}/-/token", fields)
    _text(server, answer, "access_token")
    seconds = answer.get("expires_in")
    if not isinstance(seconds, int) or not 0 < seconds <= _MAX_TOKEN_SECONDS:
        raise WebError(f"{server}: expires_in: expected 1 to {_MAX_TOKEN_SECONDS} seconds")
    return answer


def revoke_token(server: str, token: str) -> None:
    """End a token of a server (RFC 7009). Raises `WebError`."""
    send_form(f"{server}/-/revoke", {"token": token, "token_type_hint": "access_token"})


def revoke(provider: Provider, refresh_token: str) -> None:
    """End a refresh token at an issuer that can do so (RFC 7009). Raises `WebError`."""
    if refresh_token and "revocation_endpoint" in provider.endpoints:
        fields = {"token": refresh_token, "token_type_hint": "refresh_token", **provider.client}
        send_form(provider.endpoint("revocation_endpoint"), fields)
