"""Parameters of endpoints in the OpenAPI description.

The endpoints read these from the request themselves, so that FastAPI does not know them.
"""

from typing import Any

from services.facade.web import schemas


def _query(name: str, description: str, kind: str = "string") -> dict[str, Any]:
    return {"name": name, "in": "query", "description": description, "schema": {"type": kind}}


def _path(name: str, description: str, **schema: object) -> dict[str, Any]:
    described = {"type": "string", "description": description, **schema, "title": name.title().replace("_", " ")}
    return {"name": name, "in": "path", "required": True, "schema": described, "description": description}


def _header(name: str, description: str, *, required: bool = False, **schema: object) -> dict[str, Any]:
    described = {"type": "string", **schema}
    return {"name": name, "in": "header", "required": required, "description": description, "schema": described}


IN_PATHS = (
    _path("oid", "the object's id", pattern=schemas.OID_PATTERN),
    _path("lock_id", "the lock's id", pattern=schemas.LOCK_ID_PATTERN),
    _path(
        "repository",
        "the repository's name, also with `.git`, `/info/lfs` or `.git/info/lfs` after it",
        examples=["demo/assets"],
    ),
)


APPEND_PARAMETERS: dict[str, Any] = {
    "parameters": [
        _header("Tus-Resumable", "the version of tus", required=True, enum=["1.0.0"]),
        _header(
            "Upload-Offset", "how many bytes come before those of the body", required=True, pattern="^[0-9]{1,19}$"
        ),
    ]
}
HEAD_PARAMETERS: dict[str, Any] = {
    "parameters": [
        _header(
            "Tus-Resumable",
            "the version of tus: then the token is that of an upload, and the answer has Upload-Offset",
            enum=["1.0.0"],
        ),
    ]
}
LOCK_QUERY: dict[str, Any] = {
    "parameters": [
        _query("path", "only the lock of exactly this path"),
        _query("path_prefix", "only the locks whose paths begin with this text; they are listed by path"),
        _query("owner", "only the locks of the user with this name"),
        _query("id", "only the lock with this id"),
        _query("cursor", "the next_cursor of the page before"),
        _query("limit", "how many locks at most; less than 1 is the default, too many are coerced", "integer"),
        _query("refspec", "the ref that the request is about; it selects its lock space where the repository has any"),
    ]
}
HISTORY_QUERY: dict[str, Any] = {
    "parameters": [
        _query("path", "only the locks of exactly this path"),
        _query("owner", "only the locks of a user with this name"),
        _query("since", "only the locks that were released then or later: a time such as locked_at, or a day"),
        _query("until", "only the locks that were released before: a time such as locked_at, or a day"),
        _query("cursor", "the next_cursor of the page before"),
        _query("limit", "how many locks at most; less than 1 is the default, more than 100 are coerced", "integer"),
    ]
}

RETAIN_QUERY: dict[str, Any] = {
    "parameters": [
        _query("apply", "true to remove the garbage; by default it is only told", "boolean"),
        _query("grace", "what came or was used within so many seconds is kept; by default 1209600, 14 days", "integer"),
        _query("most", "remove nothing if more than this percentage is garbage; by default 50", "integer"),
        _query("age", "how many seconds ago the listing of the retained objects began; by default 0", "integer"),
    ]
}
EVENT_PARAMETERS: dict[str, Any] = {
    "parameters": [
        _header("Last-Event-ID", "the id of the last event that the client has; without it, the events begin now"),
        _query("refspec", "the ref that the request is about"),
    ]
}
