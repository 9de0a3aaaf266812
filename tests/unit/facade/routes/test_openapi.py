"""The description of the interface is true of all endpoints."""

import json
import re
from typing import Any

import pytest
from fastapi.routing import APIRoute

from services.facade.app import create_api
from services.facade.errors import ErrorRenderer
from services.facade.routes import batch, garbage, health, lock_extensions, locks, objects, resumable_uploads, sign_in
from services.facade.web.media_types import DIALECTS


@pytest.fixture(scope="module")
def schema() -> dict[str, Any]:
    """The description, as it is served."""
    served: dict[str, Any] = json.loads(
        json.dumps(create_api(ErrorRenderer(realm="x", documentation_url=None)).openapi())
    )
    return served


def _operations(schema: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {
        operation["operationId"]: operation
        for operations in schema["paths"].values()
        for operation in operations.values()
    }


def test_every_endpoint_is_described(schema: dict[str, Any]) -> None:
    """Once for each method."""
    routes = [
        route
        for module in (batch, garbage, objects, resumable_uploads, lock_extensions, locks, health, sign_in)
        for route in module.router.routes
        if isinstance(route, APIRoute) and route.include_in_schema
    ]
    assert len(_operations(schema)) == len(routes) == 24


def test_every_reference_leads_somewhere(schema: dict[str, Any]) -> None:
    """Every reference in the schema resolves, and no schema is unused, so that generators can rely on it."""
    text = json.dumps(schema)
    for name in schema["components"]["schemas"]:
        assert f'"#/components/schemas/{name}"' in text
    for part in text.split('"#/components/schemas/')[1:]:
        assert part.partition('"')[0] in schema["components"]["schemas"]
    assert "HTTPValidationError" not in text


def test_every_part_of_a_path_is_described(schema: dict[str, Any]) -> None:
    """Once, with what it is."""
    for path, operations in schema["paths"].items():
        for operation in operations.values():
            described = [each for each in operation.get("parameters", []) if each["in"] == "path"]
            assert sorted(each["name"] for each in described) == sorted(re.findall(r"{(\w+)}", path))
            assert all(each["required"] and each["description"] for each in described)


def test_both_dialects_are_described_everywhere(schema: dict[str, Any]) -> None:
    """Bodies that come in, that go out, and those of errors."""
    media_types = {dialect.media_type for dialect in DIALECTS}
    for name, operation in _operations(schema).items():
        contents = [set(answer.get("content", {})) for answer in operation["responses"].values()]
        # The calls for many locks take plain JSON as well.
        contents.append(set(operation.get("requestBody", {}).get("content", {})) - {"application/json"})
        for content in contents:
            if any("vnd" in media_type for media_type in content):
                assert content == media_types, name


def test_every_answer_has_the_request_id(schema: dict[str, Any]) -> None:
    """In a header."""
    for operation in _operations(schema).values():
        for answer in operation["responses"].values():
            assert "X-Request-Id" in answer["headers"]


def test_verify_locks_is_never_answered_404_or_501(schema: dict[str, Any]) -> None:
    """A 404 or 501 on verify_locks, or a 401 or 422 on a transfer, deceives clients (client-1, client-5, client-8)."""
    operations = _operations(schema)
    assert not {"404", "501"} & set(operations["verify_locks"]["responses"])
    for name in ("upload", "verify", "download", "head"):
        assert not {"401", "422"} & set(operations[name]["responses"])


def test_no_answer_has_a_null(schema: dict[str, Any]) -> None:
    """Clients crash on some (client-3)."""
    for name in ("BatchAnswer", "ObjectAnswer", "Actions", "Action", "Error", "Lock", "LockPage", "LockVerification"):
        assert "null" not in json.dumps(schema["components"]["schemas"][name])
