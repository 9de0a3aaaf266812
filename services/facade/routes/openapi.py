"""OpenAPI description of the interface at /openapi.json: every status, both media types, all parameters."""

from collections.abc import Sequence
from functools import cache, partial
from importlib.metadata import version
from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue, models_json_schema
from pydantic_core import core_schema
from starlette.routing import BaseRoute

from services.facade.auth.action_tokens import TOKEN_HEADER
from services.facade.routes.openapi_parameters import IN_PATHS
from services.facade.web import garbage_schemas, schemas, sign_in_schemas
from services.facade.web.media_types import APPENDED, DIALECTS, GENERIC, PLAIN_JSON
from services.facade.web.request_body import FORM, LIST

Responses = dict[int | str, dict[str, Any]]

_ANYWHERE = (500, 502, 503, 504)
_REFERENCE = "#/components/schemas/{model}"
_MEANING = {
    200: "Done",
    201: "Created",
    204: "Done; there is nothing to say but in headers",
    206: "The part that Range names",
    304: "The client has the object, or the list, already",
    400: "The request is malformed, or the bytes are not those of the object",
    401: "Credentials are needed, or are not valid",
    403: "The caller may not do this",
    404: "There is no such thing for the caller",
    406: "Accept excludes both media types",
    408: "The client was silent, or too slow, within the body",
    409: "The path is locked already, the offset is another one, or the state does not allow it",
    410: "The object was removed",
    412: "The object is not the one that If-Match names, or the version of tus is not supported",
    413: "The body, or the batch, is too large",
    415: "Content-Type is neither media type, or the body is encoded",
    416: "The object has no such bytes",
    423: "Another request goes on with this upload; come again after Retry-After",
    422: "A field is missing or malformed",
    429: "Too many requests; come again after Retry-After",
    500: "Internal error",
    501: "Not implemented",
    502: "An inner service gave an answer that is not whole",
    503: "An inner service is not available; come again after Retry-After",
    504: "An inner service did not answer in time",
    507: "The storage, or the quota of the repository, is full",
    509: "The repository has used up its bandwidth",
}
_REQUESTS = (
    schemas.BatchRequest,
    schemas.VerifyObjectRequest,
    schemas.CreateLockRequest,
    schemas.VerifyLocksRequest,
    schemas.DeleteLockRequest,
    schemas.StealLockRequest,
    schemas.LockPathsRequest,
    sign_in_schemas.TokenExchange,
    sign_in_schemas.TokenRevocation,
)
_ANSWERS = (
    schemas.BatchAnswer,
    schemas.LockAnswer,
    schemas.LockPage,
    schemas.LockVerification,
    schemas.LockPathsAnswer,
    schemas.StolenLockAnswer,
    schemas.LockHistoryPage,
    garbage_schemas.CollectionAnswer,
    sign_in_schemas.ExchangedToken,
    sign_in_schemas.SignIns,
    schemas.Error,
)

_ON_ACTIONS = ("download", "head", "upload", "verify", "append")


def _json(model: type[schemas.Body]) -> dict[str, Any]:
    schema = {"$ref": _REFERENCE.format(model=model.__name__)}
    return {dialect.media_type: {"schema": schema} for dialect in DIALECTS}


def _headers(status: int) -> dict[str, Any]:
    names = {"X-Request-Id": "ties this answer to the log lines of every service"}
    if status == 401:
        names |= {dialect.challenge: "the scheme and the realm" for dialect in DIALECTS}
        names["WWW-Authenticate"] = "the same, but not for browsers"
    if status == 509:
        names["Retry-After"] = "after how many seconds the next day (UTC) begins"
    if status in (423, 429, 503):
        names["Retry-After"] = "after how many seconds to come again"
    return {name: {"description": text, "schema": {"type": "string"}} for name, text in names.items()}


def _answer(status: int, content: dict[str, Any] | None = None) -> dict[str, Any]:
    described: dict[str, Any] = {"description": _MEANING[status], "headers": _headers(status)}
    return {**described, "content": content} if content else described


def _errors(statuses: tuple[int, ...]) -> Responses:
    return {status: _answer(status, _json(schemas.Error)) for status in (*statuses, *_ANYWHERE)}


def answers(model: type[schemas.Body], *errors: int, status: int = 200) -> Responses:
    """Return the answers of an endpoint that answers JSON."""
    return {status: _answer(status, _json(model)), **_errors(errors)}


def plain_answers(model: type[schemas.Body], *errors: int) -> Responses:
    """Return the answers of an endpoint that answers JSON in no dialect."""
    schema = {"$ref": _REFERENCE.format(model=model.__name__)}
    return {200: _answer(200, {"application/json": {"schema": schema}}), **_errors(errors)}


def empty_answers(*errors: int, status: int = 200) -> Responses:
    """Return the answers of an endpoint that answers with a status alone."""
    return {status: _answer(status), **_errors(errors)}


def bytes_answers(*, head: bool = False) -> Responses:
    """Return the answers of an endpoint that answers with an object, or, with `head`, with its headers alone."""
    if head:
        return {status: _answer(status) for status in (200, 403, 404, 410, 412, 423, 429, 501, 507, *_ANYWHERE)}
    content: dict[str, Any] = {"application/octet-stream": {}}
    whole: Responses = {status: _answer(status, content) for status in (200, 206)}
    return {**whole, 304: _answer(304), **_errors((403, 404, 410, 412, 416, 429, 501, 509))}


_TUS = {"Tus-Resumable": "the version of tus, 1.0.0"}
_PROGRESS = {
    **_TUS,
    "Upload-Offset": "how many bytes are kept",
    "Upload-Expires": "until when they are kept, if not all have come",
}


def _with_headers(answer: dict[str, Any], names: dict[str, str]) -> dict[str, Any]:
    more = {name: {"description": text, "schema": {"type": "string"}} for name, text in names.items()}
    return {**answer, "headers": {**answer["headers"], **more}}


def append_answers() -> Responses:
    """Return the answers of an endpoint that adds bytes to an upload."""
    failures = _errors((400, 403, 404, 408, 409, 410, 412, 415, 423, 429, 501, 507, 509))
    described: Responses = {status: _with_headers(answer, _TUS) for status, answer in failures.items()}
    return {**described, 204: _with_headers(_answer(204), _PROGRESS)}


def option_answers() -> Responses:
    """Return the answers of an endpoint that tells what of tus is supported."""
    names = {"Tus-Version": "the versions", "Tus-Extension": "the extensions", "Tus-Max-Size": "the most bytes"}
    return {**_errors((404, 429)), 204: _with_headers(_answer(204), {**_TUS, **names, "Allow": "the methods"})}


def event_answers(*errors: int) -> Responses:
    """Return the answers of an endpoint that answers with server-sent events."""
    fields = {name: {"type": "string"} for name in ("id", "event", "data")}
    event = {"type": "object", "properties": fields, "required": ["id", "event", "data"]}
    return {200: _answer(200, {"text/event-stream": {"schema": event}}), **_errors(errors)}


def health_answers(*failures: int, head: bool = False) -> Responses:
    """Return the answers of a health endpoint, or, with `head`, of its HEAD variant without bodies."""
    if head:
        return {status: _answer(status) for status in (200, *failures)}
    schema = {"type": "object", "required": ["status"], "properties": {"status": {"type": "string"}}}
    return {status: _answer(status, {"application/json": {"schema": schema}}) for status in (200, *failures)}


def json_request(model: type[schemas.Body], *, required: bool = True, plain_json: bool = False) -> dict[str, Any]:
    """Return the description of a JSON body, whose type may with `plain_json` be `application/json` too."""
    content = _json(model)
    if plain_json:
        content[PLAIN_JSON] = content[GENERIC.media_type]
    return {"requestBody": {"required": required, "content": content}}


BYTES_REQUEST = {"requestBody": {"required": True, "content": {"application/octet-stream": {}}}}
"""The description of a body that is an object; the endpoint accepts any media type."""


APPEND_REQUEST = {"requestBody": {"required": True, "content": {APPENDED: {}}}}
"""The description of a body that continues an upload."""


def form_request(model: type[schemas.Body]) -> dict[str, Any]:
    """Return the description of a body that is a form."""
    schema = {"$ref": _REFERENCE.format(model=model.__name__)}
    return {"requestBody": {"required": True, "content": {FORM: {"schema": schema}}}}


def list_request(description: str) -> dict[str, Any]:
    """Return the description of a body that is a list."""
    schema = {"type": "string", "description": description}
    return {"requestBody": {"required": True, "content": {LIST: {"schema": schema}}}}


class _WithoutNull(GenerateJsonSchema):
    """Generator of the schemas of answers, without null, because answers omit fields that are None."""

    def nullable_schema(self, schema: core_schema.NullableSchema) -> JsonSchemaValue:
        """Return the schema of the value without null."""
        return self.generate_inner(schema["schema"])

    def default_schema(self, schema: core_schema.WithDefaultSchema) -> JsonSchemaValue:
        """Return the schema without its default, because a default in an answer would mean nothing."""
        return self.generate_inner(schema["schema"])


def describe(api: FastAPI, routes: Sequence[BaseRoute]) -> None:
    """Make `api` serve the description of all these routes."""
    api.openapi = cache(partial(_build, routes))  # type: ignore[method-assign] # FastAPI documents this as the way


def _build(routes: Sequence[BaseRoute]) -> dict[str, Any]:
    schema = get_openapi(
        title="Towpath",
        version=version("towpath"),
        description="Large objects beside a repository, and exclusive locks on its paths.",
        routes=routes,
    )
    for path, operations in schema["paths"].items():
        parameters = [parameter for parameter in IN_PATHS if f"{{{parameter['name']}}}" in path]
        for operation in operations.values():
            _complete(operation, parameters)
    _, requests = models_json_schema([(model, "validation") for model in _REQUESTS], ref_template=_REFERENCE)
    _, replies = models_json_schema(
        [(model, "validation") for model in _ANSWERS], ref_template=_REFERENCE, schema_generator=_WithoutNull
    )
    schema["components"] = {
        "schemas": {**requests["$defs"], **replies["$defs"]},
        "securitySchemes": {
            "password": {
                "type": "http",
                "scheme": "basic",
                "description": "the token as password, with any user name, or as user name",
            },
            "token": {"type": "http", "scheme": "bearer"},
            "action": {
                "type": "apiKey",
                "in": "header",
                "name": TOKEN_HEADER,
                "description": "the header of the action; as Bearer it may stand in Authorization too",
            },
        },
    }
    return schema


def _complete(operation: dict[str, Any], parameters: Sequence[dict[str, Any]]) -> None:
    """Add the path's parameters and the accepted credentials to the description of an operation."""
    if parameters:
        operation["parameters"] = [*parameters, *operation.get("parameters", [])]
    if operation["operationId"] in _ON_ACTIONS:
        operation["security"] = [{"action": []}]
    elif not {"health", "sign-in"}.intersection(operation["tags"]):
        # A public repository can be read without credentials.
        operation["security"] = [{}, {"password": []}, {"token": []}]
