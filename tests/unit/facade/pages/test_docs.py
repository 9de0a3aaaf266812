"""The page of the interface says in words what an OpenAPI description says, whatever it contains."""

from typing import Any

import pytest

from services.facade.pages.docs import Operation, fields_of, operations_by_tag, prose, type_of

_ERROR = {"$ref": "#/components/schemas/Error"}
_SCHEMAS: dict[str, Any] = {
    "Entry": {"type": "object", "properties": {"oid": {"type": "string", "pattern": "^[0-9a-f]{64}$"}}},
    "Request": {
        "type": "object",
        "properties": {
            "operation": {"enum": ["download", "upload"]},
            "objects": {"type": "array", "items": {"$ref": "#/components/schemas/Entry"}},
            "note": {"anyOf": [{"type": "string", "maxLength": 5}, {"type": "null"}], "description": "a `note`"},
        },
        "required": ["operation", "objects"],
    },
    "Error": {"type": "object", "properties": {"message": {"type": "string"}}},
}


def _operation(
    method: str = "post",
    path: str = "/{repository}/objects/batch",
    **described: Any,  # noqa: ANN401 - a part of a description
) -> Operation:
    operation = {"operationId": "it", "tags": ["objects"], "responses": {}, **described}
    description = {"paths": {path: {method: operation}}, "components": {"schemas": _SCHEMAS}}
    [[made]] = operations_by_tag(description).values()
    return made


@pytest.mark.parametrize(
    ("schema", "words"),
    [
        ({"type": "string"}, "string"),
        ({"type": "string", "maxLength": 5}, "string, maxLength <code>5</code>"),
        ({"type": "string", "pattern": "<b>"}, "string, pattern <code>&lt;b&gt;</code>"),
        ({"type": "integer", "minimum": 0}, "integer, minimum <code>0</code>"),
        ({"type": "integer", "default": None}, "integer"),
        ({"const": "basic"}, "<code>&#34;basic&#34;</code>"),
        ({"enum": ["a", "b"]}, "<code>&#34;a&#34;</code> or <code>&#34;b&#34;</code>"),
        ({"anyOf": [{"type": "string"}, {"type": "null"}]}, "string or null"),
        ({"type": "array", "anyOf": [{"maxItems": 0}], "items": {"type": "string"}}, "array of string"),
        ({"type": "object", "additionalProperties": {"type": "string"}}, "object of string"),
        ({"type": "object", "properties": {"id": {}, "data": {}}}, "object with <code>id</code>, <code>data</code>"),
        ({"default": "x"}, "any, default <code>x</code>"),
        (_ERROR, '<a href="#schema-Error">Error</a>'),
        ({"type": "array", "items": _ERROR}, 'array of <a href="#schema-Error">Error</a>'),
    ],
)
def test_a_type_in_words(schema: dict[str, Any], words: str) -> None:
    """With its rules, and links to the schemas that it names."""
    assert type_of(schema) == words


def test_the_fields_of_a_schema() -> None:
    """Each with its type, whether it is required, and its description."""
    fields = {field.name: field for field in fields_of(_SCHEMAS["Request"])}
    assert [field.required for field in fields.values()] == [True, True, False]
    assert fields["note"].type == "string, maxLength <code>5</code> or null"
    assert fields["note"].description == "a <code>note</code>"


def test_prose_is_text_with_code() -> None:
    """Markup in it stays text, also in backticks; lines are joined."""
    assert prose("With `<b>`,\n  or <i>") == "With <code>&lt;b&gt;</code>, or &lt;i&gt;"


def test_bodies_of_one_schema_are_told_together() -> None:
    """As those of the two dialects."""
    content = {"application/a": {"schema": _ERROR}, "application/b": {"schema": _ERROR}, "text/plain": {}}
    [errors, plain] = _operation(requestBody={"content": content}).body
    assert (errors.media_types, errors.schema) == (["application/a", "application/b"], "Error")
    assert (plain.media_types, plain.type, plain.schema) == (["text/plain"], "bytes", "")


def test_the_answers_are_in_order() -> None:
    """By status, with the headers that not all have."""
    headers: dict[str, Any] = {"X-Request-Id": {}, "Retry-After": {}}
    responses = {"503": {"description": "Later", "headers": headers}, "200": {"description": "Done"}}
    answers = _operation(responses=responses).answers
    assert [(answer.status, answer.description, answer.headers) for answer in answers] == [
        ("200", "Done", []),
        ("503", "Later", ["Retry-After"]),
    ]


@pytest.mark.parametrize(
    ("security", "words"),
    [
        (None, "none"),
        ([{"action": []}], "the header X-Towpath-Token of the action"),
        ([{}, {"token": []}], "the token as Bearer, or none to read a public repository"),
    ],
)
def test_the_credentials_in_words(security: list[dict[str, Any]] | None, words: str) -> None:
    """All ways, or none."""
    assert _operation(security=security or ()).credentials == words


def test_an_example_has_the_required_fields() -> None:
    """In the dialect of git-lfs, with the token of the variable."""
    body = {"content": {"application/vnd.git-lfs+json": {"schema": {"$ref": "#/components/schemas/Request"}}}}
    example = _operation(requestBody=body, security=[{"token": []}]).example
    assert example.splitlines() == [
        'curl -X POST "$BASE/demo/assets/objects/batch" \\',
        '  -H "Authorization: Bearer $TOKEN" \\',
        "  -H 'Content-Type: application/vnd.git-lfs+json' \\",
        """  -d '{"operation": "download", "objects": [{"oid": \
"e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"}]}'""",
    ]


def test_an_example_of_an_upload() -> None:
    """The bytes come from a file, and the token is that of the action."""
    body: dict[str, Any] = {"content": {"application/octet-stream": {}}}
    example = _operation("put", "/{repository}/objects/{oid}", requestBody=body, security=[{"action": []}]).example
    assert example.startswith('curl -X PUT "$BASE/demo/assets/objects/e3b0c442')
    assert '"X-Towpath-Token: $ACTION_TOKEN"' in example
    assert example.endswith("--data-binary @FILE")
