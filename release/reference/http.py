"""The page of the HTTP interface: every endpoint of the OpenAPI description, and the bodies."""

from collections.abc import Iterator, Mapping
from typing import Any

from release.reference.markdown import document, paragraphs, table, text
from services.facade.app import create_api
from services.facade.errors import ErrorRenderer

INTRODUCTION = """
Every server describes itself at `/openapi.json`, from which this page is made. [protocol.md](../protocol.md) says which
rule of the interface is where in the code. Bodies are JSON in either dialect, `application/vnd.blob+json` or
`application/vnd.git-lfs+json`, where no other media type is named. `{repository}` is the name of a repository, also
with `.git`, `/info/lfs` or `.git/info/lfs` after it. Each answer has a header `X-Request-Id`, which log lines have too.
"""
# The bounds of a value, by the words of JSON Schema.
_BOUNDS = {
    "minLength": "at least {} characters",
    "maxLength": "at most {} characters",
    "minItems": "at least {}",
    "maxItems": "at most {}",
    "minimum": "from {}",
    "exclusiveMinimum": "more than {}",
    "maximum": "to {}",
    "format": "{}",
    "pattern": "`{}`",
    "const": "`{}`",
}
_FIRST_ERROR = 400
Schema = Mapping[str, Any]


def page() -> str:
    """Return the text of the page."""
    described = create_api(ErrorRenderer(realm="towpath", documentation_url=None)).openapi()
    lines = [*INTRODUCTION.strip().splitlines(), ""]
    tagged: dict[str, list[str]] = {}
    statuses: dict[str, tuple[str, ...]] = {}
    for path, operations in described["paths"].items():
        for method, operation in operations.items():
            tagged.setdefault(operation["tags"][0], []).extend(_operation(f"{method.upper()} {path}", operation))
            for status, answer in operation["responses"].items():
                if int(status) >= _FIRST_ERROR:
                    statuses[status] = (status, text(answer["description"]), _headers(answer))
    for tag, found in tagged.items():
        lines += [f"## {tag.capitalize()}", "", *found]
    lines += ["## Errors", "", "Every error but those of health has the body [Error](#error).", ""]
    lines += table(("status", "meaning", "headers"), (row for _, row in sorted(statuses.items())))
    lines += ["## Bodies", ""]
    for name, schema in sorted(described["components"]["schemas"].items()):
        lines += _body(name, schema)
    return document("HTTP", lines)


def _operation(heading: str, operation: Schema) -> Iterator[str]:
    yield from (f"### {heading}", "", f"**{text(operation['summary'])}.**".replace("?.", "?"), "")
    yield from paragraphs(operation["description"])
    parameters = [
        (f"`{each['name']}`", each["in"], _type(each["schema"]), text(each.get("description", "")))
        for each in operation.get("parameters", ())
        if each["name"] != "repository"
    ]
    yield from table(("parameter", "in", "type", "what it is"), parameters)
    if "requestBody" in operation:
        yield from (f"Request body: {_content(operation['requestBody']['content'])}", "")
    answers = sorted(operation["responses"].items())
    rows = [
        (status, _content(answer.get("content", {})), text(answer["description"]), _headers(answer))
        for status, answer in answers
        if int(status) < _FIRST_ERROR
    ]
    yield from table(("status", "body", "meaning", "headers"), rows)
    failures = [status for status, _ in answers if int(status) >= _FIRST_ERROR]
    if failures:
        yield from (f"Errors: {', '.join(failures)}", "")


def _headers(answer: Schema) -> str:
    # The request's id is in every answer.
    return ", ".join(f"`{name}`" for name in answer.get("headers", ()) if name != "X-Request-Id")


def _content(content: Mapping[str, Schema]) -> str:
    """Return the bodies that there may be; those of the dialects, which are the same, once and without their names."""
    shown: dict[str, None] = {}
    for media_type, found in content.items():
        dialect = media_type.startswith("application/vnd.")
        body = _type(found["schema"]) if found.get("schema") else "bytes"
        shown[body if dialect else f"{body} as `{media_type}`"] = None
    return ", or ".join(shown)


def _body(name: str, schema: Schema) -> Iterator[str]:
    yield from (f"### {name}", "", *paragraphs(schema.get("description", "")))
    required = set(schema.get("required", ()))
    rows = [
        (f"`{field}`", _type(found), "yes" if field in required else "", text(found.get("description", "")))
        for field, found in schema.get("properties", {}).items()
    ]
    yield from table(("field", "type", "required", "what it is"), rows)


def _type(schema: Schema) -> str:
    """Return the type of a value with its bounds."""
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return f"[{name}](#{name.lower()})"
    if "anyOf" in schema and "type" not in schema:
        return " or ".join(dict.fromkeys(_type(each) for each in schema["anyOf"]))
    if "enum" in schema:
        return " or ".join(f"`{value}`" for value in schema["enum"])
    kind = schema.get("type", "any")
    if kind == "array":
        kind = f"array of {_type(schema['items'])}"
    elif kind == "object" and isinstance(schema.get("additionalProperties"), dict):
        kind = f"object of {_type(schema['additionalProperties'])}"
    elif kind == "object" and "properties" in schema:
        kind = "object of " + ", ".join(f"`{name}`" for name in schema["properties"])
    bounds = [words.format(schema[key]).replace("|", r"\|") for key, words in _BOUNDS.items() if key in schema]
    return ", ".join([kind, *bounds])
