"""The paths that can be locked (docs/protocol.md, "Create lock"). Paths are compared byte for byte."""

import hashlib

from services.common.errors import InvalidArgument, Reason


def check_path(path: str, *, max_bytes: int) -> None:
    """Raise `InvalidArgument` (INVALID_PATH) unless `path` is relative, "/"-separated and of at most `max_bytes`.

    Empty parts, the parts "." and "..", and NUL are refused too. Everything else is allowed; case is not folded, and
    Unicode is not normalised.
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


def path_hash(path: str, space: str = "") -> bytes:
    """Return the SHA-256 of a path's bytes, the key by which its lock is found; in a space, that of both.

    A path can be too long for a Postgres index, and a collation may treat different bytes as equal. Neither a path nor
    a space contains the NUL between them.
    """
    return hashlib.sha256(_encode(f"{space}\0{path}" if space else path)).digest()


def _encode(path: str) -> bytes:
    # gRPC cannot carry a lone surrogate, but a direct caller may pass one and must not fail because of it.
    return path.encode("utf-8", errors="surrogatepass")
