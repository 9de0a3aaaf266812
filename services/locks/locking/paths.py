"""Which paths can be locked (protocol: "Create lock"; they are compared byte for byte)."""

import hashlib

from services.common.errors import InvalidArgument, Reason


def check_path(path: str, *, max_bytes: int) -> None:
    """Raise `InvalidArgument` (INVALID_PATH) unless `path` is relative, "/"-separated and of at most `max_bytes`.

    It has no empty, "." or ".." parts and no NUL. All else is allowed, and nothing is folded or normalised.
    """
    if problem := _problem(path, max_bytes):
        raise InvalidArgument(Reason.INVALID_PATH, f"path: {problem}")


def _problem(path: str, max_bytes: int) -> str:
    if not path:
        return "expected a path, got an empty one"
    if len(path) > max_bytes or len(_encode(path)) > max_bytes:
        return f"expected at most {max_bytes} bytes"
    if "\0" in path:
        return "expected no NUL"
    if path.startswith("/"):
        return "expected a path relative to the root of the working directory"
    if any(part in ("", ".", "..") for part in path.split("/")):
        return 'expected no empty, "." or ".." parts'
    return ""


def path_hash(path: str) -> bytes:
    """Return the SHA-256 of a path's bytes, by which its lock is found.

    Paths are too long for an index of Postgres, and a collation may call different bytes equal.
    """
    return hashlib.sha256(_encode(path)).digest()


def _encode(path: str) -> bytes:
    # A lone surrogate cannot come over gRPC; it is no reason to fail for those who call this as a function.
    return path.encode("utf-8", errors="surrogatepass")
