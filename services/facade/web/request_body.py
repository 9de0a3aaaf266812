"""Request bodies: reading within bounds of size and time, parsing of JSON, and validation."""

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import TypeVar
from urllib.parse import parse_qsl

from pydantic import ValidationError
from pydantic_core import from_json
from starlette.datastructures import Headers
from starlette.types import Receive

from services.common.errors import DeadlineExceeded, InvalidArgument, Reason, ResourceExhausted
from services.facade.web.error_reasons import ClientDisconnected, HttpReason
from services.facade.web.media_types import DIALECTS, from_content_type, is_named, is_plain_json, is_utf_8
from services.facade.web.schemas import Body

Shape = TypeVar("Shape", bound=Body)

# Decoding this much takes a millisecond or two; longer bodies are decoded in a thread.
_MAX_INLINE_BYTES = 64 * 1024
_MAX_FIELDS = 20

FORM = "application/x-www-form-urlencoded"
"""The media type of a form."""

LIST = "application/octet-stream"
"""The media type of a list: a page of another site cannot make a browser send it, unlike plain text."""


def has_body(headers: Headers) -> bool:
    """Return whether a request has a body, by its headers."""
    return "transfer-encoding" in headers or headers.get("content-length", "0") != "0"


async def chunks(receive: Receive, idle_seconds: float, min_rate: int) -> AsyncIterator[bytes]:
    """Yield the body as it arrives.

    Raises `ClientDisconnected`, and `DeadlineExceeded`: CLIENT_SILENT where nothing arrives for `idle_seconds`,
    CLIENT_SLOW where fewer than `min_rate` bytes a second arrive, on average over each `idle_seconds`. Only the time
    spent waiting for the client counts.
    """
    loop = asyncio.get_running_loop()
    more = True
    waited, came = 0.0, 0
    while more:
        since = loop.time()
        try:
            async with asyncio.timeout(idle_seconds):
                message = await receive()
        except TimeoutError:
            raise DeadlineExceeded(
                HttpReason.CLIENT_SILENT, f"body: nothing came for {idle_seconds:g} seconds"
            ) from None
        if message["type"] == "http.disconnect":
            raise ClientDisconnected
        data = message.get("body", b"")
        more = message.get("more_body", False)
        waited, came = waited + loop.time() - since, came + len(data)
        if waited >= idle_seconds:
            if more and came < min_rate * waited:
                raise DeadlineExceeded(HttpReason.CLIENT_SLOW, f"body: expected at least {min_rate} bytes a second")
            waited, came = 0.0, 0
        if data:
            yield data


async def read(headers: Headers, receive: Receive, *, max_bytes: int, seconds: float) -> bytes:
    """Return the whole body.

    Raises `ResourceExhausted` (BODY_TOO_LARGE), before anything is read where Content-Length exceeds `max_bytes`;
    `ClientDisconnected`; and `DeadlineExceeded` (CLIENT_SLOW) where the body is not complete after `seconds`.
    """
    too_large = ResourceExhausted(HttpReason.BODY_TOO_LARGE, f"body: expected at most {max_bytes} bytes")
    if int(headers.get("content-length", "0")) > max_bytes:
        raise too_large
    body = bytearray()
    try:
        async with asyncio.timeout(seconds):
            more = True
            while more:
                message = await receive()
                if message["type"] == "http.disconnect":
                    raise ClientDisconnected
                body += message.get("body", b"")
                if len(body) > max_bytes:
                    raise too_large
                more = message.get("more_body", False)
    except TimeoutError:
        raise DeadlineExceeded(HttpReason.CLIENT_SLOW, f"body: expected within {seconds:g} seconds") from None
    return bytes(body)


def check_content_type(headers: Headers, *, plain_json: bool = False) -> None:
    """Raise `InvalidArgument` (UNSUPPORTED_MEDIA_TYPE) unless a body's type is that of a dialect, in UTF-8, unencoded.

    With `plain_json`, the type may be `application/json` too. Where Accept names a dialect, any type is taken: `fetch`
    and curl have types of their own for a text. A request without a body needs no Content-Type.
    """
    content_type = headers.get("content-type")
    if content_type is None and not has_body(headers):
        return
    codings = [coding.strip().lower() for coding in ",".join(headers.getlist("content-encoding")).split(",")]
    if any(coding not in ("", "identity") for coding in codings):
        raise InvalidArgument(
            HttpReason.UNSUPPORTED_MEDIA_TYPE, "content-encoding: expected identity, or no such header"
        )
    if is_utf_8(content_type) and is_named(headers.getlist("accept")):
        return
    if plain_json and is_plain_json(content_type):
        return
    if from_content_type(content_type) is None:
        expected = " or ".join(dialect.media_type for dialect in DIALECTS)
        message = f"content-type: expected {expected}, in UTF-8; or one of them in Accept"
        raise InvalidArgument(HttpReason.UNSUPPORTED_MEDIA_TYPE, message)


async def decoded(model: type[Shape], data: bytes, check: Callable[[object], None] | None = None) -> Shape:
    """Return the JSON in `data` as a body of this model; a thread decodes a large body, so that no other request waits.

    `check` gets the JSON value before the model. Raises the errors of `parse`, `check` and `validate_body`, in this
    order.
    """
    if len(data) > _MAX_INLINE_BYTES:
        return await asyncio.to_thread(_decode, model, data, check)
    return _decode(model, data, check)


def _decode(model: type[Shape], data: bytes, check: Callable[[object], None] | None) -> Shape:
    value = parse(data)
    if check is not None:
        check(value)
    return validate_body(model, value)


def check_form(headers: Headers) -> None:
    """Raise `InvalidArgument` (UNSUPPORTED_MEDIA_TYPE) unless a body is a form."""
    media_type = headers.get("content-type", "").partition(";")[0].strip().lower()
    if media_type != FORM or "content-encoding" in headers:
        raise InvalidArgument(HttpReason.UNSUPPORTED_MEDIA_TYPE, f"content-type: expected {FORM}")


def check_list(headers: Headers) -> None:
    """Raise `InvalidArgument` (UNSUPPORTED_MEDIA_TYPE) unless a body is a list."""
    media_type = headers.get("content-type", "").partition(";")[0].strip().lower()
    if media_type != LIST or "content-encoding" in headers:
        raise InvalidArgument(HttpReason.UNSUPPORTED_MEDIA_TYPE, f"content-type: expected {LIST}")


def parse_form(data: bytes) -> dict[str, str]:
    """Return the fields of a form. Raises `InvalidArgument` for more than `_MAX_FIELDS`, and for a repeated one."""
    try:
        pairs = parse_qsl(data.decode(), errors="strict", max_num_fields=_MAX_FIELDS)
    except ValueError as error:
        raise InvalidArgument(Reason.INVALID_FIELD, f"body: expected a form of at most {_MAX_FIELDS} fields") from error
    fields = dict(pairs)
    if len(fields) != len(pairs):
        raise InvalidArgument(Reason.INVALID_FIELD, "body: expected each field once")
    return fields


def parse(data: bytes) -> object:
    """Return the JSON value in `data`. Raises `InvalidArgument` (MALFORMED_JSON)."""
    try:
        return from_json(data, allow_inf_nan=False)
    except ValueError as error:
        raise InvalidArgument(HttpReason.MALFORMED_JSON, f"body: expected JSON: {error}") from error


def validate_body(model: type[Shape], value: object) -> Shape:
    """Return the JSON value as a body of this model. Raises an `InvalidArgument` that names the field."""
    try:
        return model.model_validate(value)
    except ValidationError as error:
        raise InvalidArgument(Reason.INVALID_FIELD, _describe(error)) from error


def _describe(error: ValidationError) -> str:
    first = error.errors(include_url=False, include_context=False, include_input=False)[0]
    where = ".".join(str(part) for part in first["loc"]) or "body"
    # pydantic's own message for this error names the class.
    problem = "expected an object" if first["type"] == "model_type" else first["msg"].removeprefix("Input ")
    return f"{where}: {problem[0].lower()}{problem[1:]}"
