"""The HTTP interface as a page, rendered from its OpenAPI description, because no viewer runs under our policy."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

from markupsafe import Markup
from starlette.responses import Response
from starlette.types import Scope

from services.facade.auth.action_tokens import TOKEN_HEADER
from services.facade.pages.rendering import render
from services.facade.pages.routing import page
from services.facade.pages.visit import Visit
from services.facade.web.media_types import GENERIC, GIT_LFS

Schema = Mapping[str, Any]
Describe = Callable[[], dict[str, Any]]
_STATE = "description_of_the_interface"
_REFERENCE = "#/components/schemas/"
_RULES = ("pattern", "format", "minimum", "maximum", "minLength", "maxLength", "minItems", "maxItems", "default")
# The id of the object of no bytes, which every example can name.
_EMPTY_OID = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
_IN_EXAMPLES = {"repository": "demo/assets", "oid": _EMPTY_OID, "lock_id": "LOCK_ID"}
_CREDENTIALS = {
    "password": "the token as password",
    "token": "the token as Bearer",
    "action": f"the header {TOKEN_HEADER} of the action",
}
_BODIES = {
    "application/octet-stream": "--data-binary @FILE",
    "application/x-www-form-urlencoded": "--data-urlencode FIELD=VALUE",
}


class Content(NamedTuple):
    """A body: its media types, its type with links to schemas, and the name of its schema, if it has one."""

    media_types: Sequence[str]
    type: Markup
    schema: str


class Field(NamedTuple):
    """A parameter, or a field of a schema."""

    name: str
    place: str
    type: Markup
    required: bool
    description: Markup


class Answer(NamedTuple):
    """An answer of an operation; its headers do not name the one that all have."""

    status: str
    description: str
    contents: Sequence[Content]
    headers: Sequence[str]


@dataclass(frozen=True)
class Operation:
    """One method of one address."""

    id: str
    method: str
    path: str
    summary: str
    description: Markup
    credentials: str
    parameters: Sequence[Field]
    body: Sequence[Content]
    answers: Sequence[Answer]
    example: str


def keep_description(scope: Scope, describe: Describe) -> None:
    """Let the page of a request know the OpenAPI description of the interface."""
    scope["state"][_STATE] = describe


async def show(visit: Visit) -> Response:
    """Show the operations of the HTTP interface by topic, and the schemas of their bodies."""
    return visit.page("docs.html", body=_body(visit.request.scope["state"][_STATE]))


@lru_cache(maxsize=2)
def _body(describe: Describe) -> Markup:
    """Return the page without its frame, the same one for everybody."""
    description = describe()
    schemas = description["components"]["schemas"]
    return Markup(  # noqa: S704 - the template has escaped it
        render(
            "docs_body.html",
            topics=operations_by_tag(description),
            schemas={
                name: (prose(schema.get("description", "")), fields_of(schema))
                for name, schema in sorted(schemas.items())
            },
        )
    )


def operations_by_tag(description: Schema) -> dict[str, list[Operation]]:
    """Return the operations of an OpenAPI description by their first tag, in its order."""
    schemas = description["components"]["schemas"]
    topics: dict[str, list[Operation]] = {}
    for path, operations in description["paths"].items():
        for method, operation in operations.items():
            topics.setdefault(operation["tags"][0], []).append(_operation(path, method.upper(), operation, schemas))
    return topics


def _operation(path: str, method: str, operation: Schema, schemas: Mapping[str, Schema]) -> Operation:
    body = operation.get("requestBody", {}).get("content", {})
    return Operation(
        id=operation["operationId"],
        method=method,
        path=path,
        summary=operation.get("summary", ""),
        description=prose(operation.get("description", "")),
        credentials=_credentials(operation.get("security", ())),
        parameters=[
            Field(
                parameter["name"],
                parameter["in"],
                type_of(parameter.get("schema", {})),
                parameter.get("required", False),
                prose(parameter.get("description", "")),
            )
            for parameter in operation.get("parameters", ())
        ],
        body=_contents(body),
        answers=[
            Answer(
                status,
                answer["description"],
                _contents(answer.get("content", {})),
                [name for name in answer.get("headers", {}) if name != "X-Request-Id"],
            )
            for status, answer in sorted(operation["responses"].items())
        ],
        example=_example(path, method, operation, schemas),
    )


def _credentials(security: Sequence[Schema]) -> str:
    ways = [" and ".join(_CREDENTIALS.get(name, name) for name in way) for way in security if way]
    if not ways:
        return "none"
    return ", or ".join(ways) + (", or none to read a public repository" if {} in security else "")


def _contents(content: Mapping[str, Schema]) -> list[Content]:
    """Return the bodies; media types of the same schema are told together."""
    grouped: dict[tuple[Markup, str], list[str]] = {}
    for media_type, described in content.items():
        schema = described.get("schema", {"type": "bytes"})
        grouped.setdefault((type_of(schema), _name_in(schema)), []).append(media_type)
    return [Content(media_types, text, name) for (text, name), media_types in grouped.items()]


def _name_in(schema: Schema) -> str:
    return str(schema.get("$ref", "")).removeprefix(_REFERENCE)


def fields_of(schema: Schema) -> list[Field]:
    """Return the fields of an object."""
    required = schema.get("required", ())
    return [
        Field(name, "", type_of(field), name in required, prose(field.get("description", "")))
        for name, field in schema.get("properties", {}).items()
    ]


def type_of(schema: Schema) -> Markup:
    """Return the type that a schema describes, in words, with links to the schemas that it names."""
    if name := _name_in(schema):
        return Markup('<a href="#schema-{0}">{0}</a>').format(name)
    if "enum" in schema:
        return Markup(" or ").join(Markup("<code>{}</code>").format(json.dumps(value)) for value in schema["enum"])
    if "const" in schema:
        return Markup("<code>{}</code>").format(json.dumps(schema["const"]))
    rules = Markup("").join(
        Markup(", {} <code>{}</code>").format(rule, schema[rule]) for rule in _RULES if schema.get(rule) is not None
    )
    if "type" not in schema and "anyOf" in schema:
        return Markup(" or ").join(map(type_of, schema["anyOf"])) + rules
    match schema.get("type", "any"):
        case "array":
            return Markup("array of ") + type_of(schema.get("items", {})) + rules
        case "object" if "additionalProperties" in schema:
            return Markup("object of ") + type_of(schema["additionalProperties"]) + rules
        case "object" if "properties" in schema:
            names = Markup(", ").join(Markup("<code>{}</code>").format(name) for name in schema["properties"])
            return Markup("object with ") + names
        case kind:
            return Markup.escape(kind) + rules


def prose(text: str) -> Markup:
    """Return the text of a description as HTML: its paragraphs are joined, and what is in backticks is code."""
    parts = " ".join(text.split()).split("`")
    return Markup("").join(
        Markup("<code>{}</code>").format(part) if number % 2 else Markup.escape(part)
        for number, part in enumerate(parts)
    )


def _example(path: str, method: str, operation: Schema, schemas: Mapping[str, Schema]) -> str:
    """Return a command that calls the operation, with the address and the token in the variables BASE and TOKEN."""
    address = path
    for name, value in _IN_EXAMPLES.items():
        address = address.replace(f"{{{name}}}", value)
    verb = {"GET": "", "HEAD": " --head"}.get(method, f" -X {method}")
    parts = [f'curl{verb} "$BASE{address}"']
    needed = {name for way in operation.get("security", ()) for name in way}
    if "action" in needed:
        parts.append(f'-H "{TOKEN_HEADER}: $ACTION_TOKEN"')
    elif needed:
        parts.append('-H "Authorization: Bearer $TOKEN"')
    if any(GENERIC.media_type in answer.get("content", {}) for answer in operation["responses"].values()):
        parts.append(f"-H 'Accept: {GIT_LFS.media_type}'")
    content = operation.get("requestBody", {}).get("content", {})
    if media_type := GIT_LFS.media_type if GIT_LFS.media_type in content else next(iter(content), ""):
        parts.append(f"-H 'Content-Type: {media_type}'")
        sample = json.dumps(_sample(content[media_type].get("schema", {}), schemas))
        parts.append(_BODIES.get(media_type) or f"-d '{sample}'")
    return " \\\n  ".join(parts)


def _sample(schema: Schema, schemas: Mapping[str, Schema]) -> object:
    """Return a value of a schema: of an object the required fields, or all where none is required."""
    if name := _name_in(schema):
        return _sample(schemas[name], schemas)
    if "enum" in schema:
        return schema["enum"][0]
    match schema.get("type"):
        case "array":
            return [_sample(schema.get("items", {}), schemas)]
        case "object":
            fields = schema.get("properties", {})
            return {key: _sample(fields[key], schemas) for key in schema.get("required") or fields}
        case "integer":
            return 0
        case "boolean":
            return True
        case _:
            return _EMPTY_OID if "0-9a-f" in schema.get("pattern", "") else "TEXT"


ROUTES = (page("page_docs", "/docs", show),)
